# SPDX-License-Identifier: GPL-3.0-or-later
"""`oac-blocks register`: what the real GNU Radio and a plain Companion, started without our help, make of it."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from oac_blocks.cli import app
from oac_blocks.companion.interpreter import interpreter_of
from tests.blocks.companion.companion_core import DESCRIPTIONS, FLOWS, copy_block_cache
from tests.support.paths import ROOT
from tests.support.polling import DEADLINE_SECONDS

COMPANION = shutil.which("gnuradio-companion")
# Not the flowgraphs that show a program's own folder, nor what a shell of a developer says of Python and GNU Radio.
FOREIGN = ("PYTHON", "GR_", "GRC_", "XDG_", "QT_QPA_PLATFORM")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty home, in this process and in those that it starts."""
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def oac_blocks(*words):
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return result.stdout


def registered():
    return json.loads(oac_blocks("register", "--json"))


def files_in(home):
    return {str(file.relative_to(home)): file.read_bytes() for file in home.rglob("*") if file.is_file()}


def run(*command, cwd):
    ran = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_gnu_radio_names_our_folder_behind_the_users(home):
    (home / ".gnuradio").mkdir()
    (home / ".gnuradio" / "config.conf").write_text("[grc]\nlocal_blocks_path = /home/me/grc\n")
    registered()
    told = run(shutil.which("gnuradio-config-info"), "--prefs", cwd=home)
    assert f"local_blocks_path = /home/me/grc:{DESCRIPTIONS}\n" in told


def test_the_same_again_changes_nothing_and_unregister_leaves_no_file(home):
    registered()
    once = files_in(home)
    assert registered()["blocks"] == [str(DESCRIPTIONS)]
    assert files_in(home) == once
    oac_blocks("unregister")
    assert files_in(home) == {}
    assert not list(home.rglob("oac_blocks"))
    oac_blocks("unregister")


def test_the_users_files_come_back_to_the_byte(home):
    folder = home / ".gnuradio"
    folder.mkdir()
    (folder / "config.conf").write_text("# mine\n[grc]\neditor = vi # best\n[log]\nlog_level = debug\n")
    (folder / "config.conf").chmod(0o600)
    before = files_in(home)
    registered()
    assert files_in(home)[".gnuradio/config.conf"] != before[".gnuradio/config.conf"]
    assert (folder / "config.conf").stat().st_mode & 0o777 == 0o600
    oac_blocks("unregister")
    assert files_in(home) == before


def test_a_config_that_is_a_link_to_dotfiles_stays_one(home):
    (home / "dotfiles").mkdir()
    (home / "dotfiles" / "gnuradio").write_text("[log]\nlog_level = debug\n")
    (home / ".gnuradio").mkdir()
    (home / ".gnuradio" / "config.conf").symlink_to(home / "dotfiles" / "gnuradio")
    registered()
    assert (home / ".gnuradio" / "config.conf").is_symlink()
    assert str(DESCRIPTIONS) in (home / "dotfiles" / "gnuradio").read_text()


def test_the_flowgraphs_stand_behind_those_that_the_user_has_opened(home):
    (home / ".gnuradio").mkdir()
    state = home / ".gnuradio" / "grc.conf"
    state.write_text("[main]\nfile_open = /home/me/a.grc\n\n[files_recent]\nfiles_recent_0 = /home/me/a.grc\n\n")
    flowgraphs = registered()["flowgraphs"]
    assert flowgraphs == sorted(str(file) for file in FLOWS.glob("*.grc"))
    text = state.read_text()
    assert text.index("files_recent_0 = /home/me/a.grc") < text.index(flowgraphs[0])
    oac_blocks("unregister")
    assert "grc_flows" not in state.read_text()
    assert "files_recent_0 = /home/me/a.grc" in state.read_text()


def test_a_link_to_an_installation_that_is_gone_is_replaced(home):
    link = registered()["link"]
    if link is None:
        pytest.skip("gr-oac is installed for the Python that runs Companion: no link is needed")
    Path(link).unlink()
    Path(link).symlink_to(home / "gone" / "oac_blocks")
    assert registered()["package"] == str(ROOT / "oac_blocks")


def refusal(*words):
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    return result.stderr


def test_without_gnu_radio_it_says_what_to_install(home, monkeypatch):
    monkeypatch.setenv("PATH", str(home))
    assert "gnuradio-companion is not on PATH: install GNU Radio" in refusal("register")


def test_a_config_that_gnu_radio_cannot_read_is_left_as_it_is(home):
    (home / ".gnuradio").mkdir()
    config = home / ".gnuradio" / "config.conf"
    config.write_text("[grc]\nthis is no setting\n")
    said = refusal("register")
    assert f"GNU Radio cannot read {config}" in said
    assert "failed to parse" in said
    assert config.read_text() == "[grc]\nthis is no setting\n"


def test_a_variable_that_hides_the_file_is_named(home, monkeypatch):
    monkeypatch.setenv("GR_CONF_GRC_LOCAL_BLOCKS_PATH", "/home/me/grc")
    assert "GR_CONF_GRC_LOCAL_BLOCKS_PATH replaces what" in refusal("register")


def test_a_companion_whose_python_lacks_what_the_blocks_need_is_told_of(home, monkeypatch):
    """Another Companion comes first on PATH: its Python is bare, and has no packages of a user's."""
    bare = home / "bare"
    run(interpreter_of(COMPANION), "-m", "venv", "--without-pip", bare, cwd=home)
    companion = bare / "bin" / "gnuradio-companion"
    companion.write_text(f"#!{bare}/bin/python3\n")
    companion.chmod(0o755)
    monkeypatch.setenv("PATH", f"{companion.parent}:{os.environ['PATH']}")
    said = refusal("register")
    assert f"{bare}/bin/python3, which runs Companion and its flowgraphs, does not import the blocks" in said
    assert "No module named 'oac_blocks'" in said
    assert "oac-blocks companion" in said
    companion.write_text("#!/bin/sh\n")
    assert "does not say which Python runs it" in refusal("register")


# Ends the program once some votes have gone through the blocks, and prints what came of them. It does not wait for Qt,
# which is not always gone when its widgets are.
SNIPPET = """\
import os
def look():
    if self.probe.mean_error_rate == self.probe.mean_error_rate:
        print(f"error rate {self.probe.mean_error_rate}", flush=True)
        self.stop()
        self.wait()
        os._exit(0)
self.look = Qt.QTimer()
self.look.timeout.connect(look)
self.look.start(20)
"""


def with_an_end(flowgraph, folder):
    """A copy of a flowgraph that ends by itself; its program is generated beside it."""
    flow = yaml.safe_load(flowgraph.read_text())
    states = {"bus_sink": False, "bus_source": False, "bus_structure": None, "coordinate": [0, 0], "rotation": 0}
    parameters = {"section": "main_after_start", "priority": "0", "code": SNIPPET}
    flow["blocks"].append(
        {"name": "an_end", "id": "snippet", "parameters": parameters, "states": {**states, "state": "enabled"}}
    )
    copy = folder / flowgraph.name
    copy.write_text(yaml.safe_dump(flow))
    return copy


@pytest.mark.early
def test_a_plain_companion_has_blocks_and_flowgraphs_and_runs_them(home):
    """The program gnuradio-companion of this machine in a home where nothing but `register` was run.

    One setting is the user's own: a terminal, which Companion asks for where it finds none.
    """
    (home / ".gnuradio").mkdir()
    (home / ".gnuradio" / "config.conf").write_text(f"[grc]\nxterm_executable = {os.devnull}\n")
    flowgraphs = registered()["flowgraphs"]
    copy_block_cache(home)
    flow = with_an_end(FLOWS / "fsk_mv_link.grc", home)
    driver = ROOT / "tests" / "blocks" / "companion" / "run_in_companion.py"
    out = run("xvfb-run", "-a", interpreter_of(COMPANION), driver, flow, COMPANION, cwd=home)
    seen = json.loads(out.splitlines()[-1])
    assert (seen["dialogs"], seen["unknown"], seen["errors"]) == ([], [], [])
    assert set(flowgraphs) <= set(seen["recent"])
    output = seen["console"].partition("Executing: ")[2]
    assert "error rate 0." in output
    assert output.endswith(">>> Done\n"), "it names an exit status other than 0"
