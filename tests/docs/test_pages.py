# SPDX-License-Identifier: GPL-3.0-or-later
"""Every command of README.md and docs/ works as written: run in the page's order, in an empty folder.

tests/docs/shortened.py has what is changed: fewer rounds, less data, virtual radios in lock-step for real ones.
"""

import subprocess

import pytest
import typer

from docs.figures.cli_reference import APPS
from tests.docs.pages import Command, blocks, commands, inline_commands, pages, words_of
from tests.docs.runner import namespace, run_page
from tests.docs.shortened import rule_for, shortened


def with_something_to_run():
    return [page for page in pages() if any(commands(block) or block.language == "python" for block in blocks(page))]


@pytest.mark.early
@pytest.mark.timeout(1800)  # a busy machine takes its time for the bench of radios
@pytest.mark.parametrize("page", with_something_to_run())
def test_commands_of_a_page_run_in_their_order(page, tmp_path):
    if not namespace():
        pytest.skip("needs unshare and ip, and the right to make a network namespace: pages use fixed ports")
    folder = tmp_path / "empty"
    folder.mkdir()
    done = run_page(page, folder)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}"


def all_commands():
    fenced = [command for page in pages() for block in blocks(page) for command in commands(block)]
    return fenced + [command for page in pages() for command in inline_commands(page)]


@pytest.mark.parametrize("command", all_commands(), ids=lambda command: f"{command.page}:{command.line}")
def test_commands_name_options_that_exist(command):
    """Commands in tables and in the text as well, which are not run."""
    words = words_of(command)
    if words[0] not in APPS:
        return
    assert not unknown_words(typer.main.get_command(APPS[words[0]]), words[1:])


def unknown_words(program, words):
    """Options and subcommands among the words that a program does not have."""
    unknown = []
    while (subcommands := getattr(program, "commands", {})) and words and not words[0].startswith("-"):
        if words[0] not in subcommands:
            return [words[0]]
        program, words = subcommands[words[0]], words[1:]
    options = {name for parameter in program.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        if word.startswith("--") and word.split("=")[0] not in options | {"--help"}:
            unknown.append(word)
    return unknown


def command(text):
    return Command("a page", 1, 1, text)


def test_a_wrong_option_is_found():
    program = typer.main.get_command(APPS["fl_app"])
    assert unknown_words(program, ["train", "--rouns", "3"]) == ["--rouns"]
    assert unknown_words(program, ["tarin"]) == ["tarin"]


def test_a_command_without_a_rule_is_found():
    assert rule_for(command("fl_app fly")) is None


def test_a_command_of_make_does_not_install():
    typed = Command("README.md", 1, 1, "make train")
    plan = subprocess.run(
        shortened(typed, rule_for(typed)).replace("make ", "make -n ", 1),
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "fl_app train" in plan.stdout
    assert "setup" not in plan.stdout


def test_a_failing_command_fails_its_page(tmp_path, monkeypatch):
    """The runner says which command failed, and what it printed."""
    from tests.docs import runner

    monkeypatch.setattr(runner, "blocks", lambda page: [runner.Block(page, 7, "sh", "fl_app show-config nowhere.toml")])
    with pytest.raises(runner.StepError, match=r"(?s)a\.md:8: fl_app show-config nowhere\.toml.*exit status 2"):
        runner.PageRun(tmp_path).run("a.md")
