# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a plain ``gnuradio-companion`` of this user know our blocks and flowgraphs, or take that back.

Three things are needed. GNU Radio's config.conf names the folder of our block descriptions. Companion's own state,
grc.conf, offers our flowgraphs in File > Open Recent. And the Python that runs Companion, which also runs what it
generates, must import ``oac_blocks``.
"""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from oac_blocks.companion.config_text import (
    block_folders,
    recent_flowgraphs,
    with_folder,
    with_recent_flowgraphs,
    without_folders,
)
from oac_blocks.companion.interpreter import (
    BLOCKS_GROUP,
    InterpreterFacts,
    RegistrationError,
    interpreter_of,
    link_package,
    unlink_package,
)
from oac_blocks.companion.places import BLOCKS, FLOWGRAPHS, PACKAGE

INFO, COMPANION = "gnuradio-config-info", "gnuradio-companion"
SETTING = "GR_CONF_GRC_LOCAL_BLOCKS_PATH"  # GNU Radio takes this variable instead of what its files say


@dataclass(frozen=True)
class Registration:
    """Say what a plain Companion finds."""

    config: str
    blocks: list[str]  # folders of ours that GNU Radio's configuration names
    state: str
    flowgraphs: list[str]  # files of ours in File > Open Recent
    companion: str
    python: str | None  # runs Companion; None if its program does not say
    package: str | None  # the oac_blocks that this Python imports
    link: str | None  # through which it finds it, if that is a link that `register` has made
    unusable: dict[str, str]  # flowgraphs of ours that this Python cannot run, and the error of the import
    problem: str | None  # why no flowgraph with our blocks runs, and what to do

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def is_ours(folder: str) -> bool:
    """Whether this is the folder of blocks of an installation of gr-oac, this one or another."""
    return Path(folder).parts[-2:] == (PACKAGE.name, BLOCKS.name)


def is_our_flowgraph(file: str) -> bool:
    """Whether this is a flowgraph that comes with an installation of gr-oac."""
    path = Path(file)
    return (path.parent.name, path.name) in {
        (folder, flowgraph.name)
        for folder in (FLOWGRAPHS.name, FLOWGRAPHS.resolve().name)
        for flowgraph in FLOWGRAPHS.glob("*.grc")
    }


def register() -> Registration:
    """Add what this package needs to the user's configuration; what is there already is left as it is.

    Raises
    ------
    RegistrationError
        If GNU Radio is not found, or cannot read the changed configuration. The file is then as it was.
    """
    if set("#:$") & set(str(BLOCKS)):
        raise RegistrationError(
            f"a folder in GNU Radio's config.conf must have no '#', ':' or '$' in its name, got {BLOCKS}: "
            "install gr-oac in another folder"
        )
    gnuradio = GnuRadio.found()
    before = _read(gnuradio.config)
    after = with_folder(before or "", str(BLOCKS), is_ours, gnuradio.inherited_folders())
    _write(gnuradio.config, before, after)
    problem = gnuradio.why_not_heard(str(BLOCKS))
    if problem:
        _write(gnuradio.config, after, before)
        raise RegistrationError(f"GNU Radio cannot read {gnuradio.config}: {problem}")
    files = sorted(str(file) for file in FLOWGRAPHS.resolve().glob("*.grc") if "%" not in str(file))
    gnuradio.change_recent(files)
    return gnuradio.registration(link_package(gnuradio.python))


def unregister() -> Registration:
    """Take back what :func:`register` has added, for this installation and others, and nothing else."""
    gnuradio = GnuRadio.found()
    before = _read(gnuradio.config)
    _write(gnuradio.config, before, without_folders(before or "", is_ours, gnuradio.inherited_folders()))
    gnuradio.change_recent([])
    return gnuradio.registration(unlink_package(gnuradio.python))


@dataclass(frozen=True)
class GnuRadio:
    """The GNU Radio whose Companion comes first on PATH, and the user's files that it reads."""

    companion: str
    info: str
    config: Path

    @classmethod
    def found(cls) -> GnuRadio:
        programs = [shutil.which(name) for name in (COMPANION, INFO)]
        for name, program in zip((COMPANION, INFO), programs, strict=True):
            if program is None:
                raise RegistrationError(
                    f"{name} is not on PATH: install GNU Radio 3.10 (Debian, Ubuntu: apt-get install gnuradio), "
                    "or activate the conda environment that has it"
                )
        companion, info = map(str, programs)
        return cls(companion, info, Path(_told(info, "--userprefsdir").strip()) / "config.conf")

    @property
    def state(self) -> Path:
        """The file where Companion keeps its state. New versions go on with that of old ones."""
        if "GRC_PREFS_PATH" in os.environ:
            return Path(os.environ["GRC_PREFS_PATH"])
        own, old = self.config.with_name("grc.conf"), Path.home() / ".gnuradio" / "grc.conf"
        return old if old.exists() and not own.exists() else own

    def inherited_folders(self) -> list[str]:
        """Return the folders of blocks that the system's files name, without the user's."""
        with tempfile.TemporaryDirectory() as empty:
            return block_folders(_told(self.info, "--prefs", GR_PREFS_PATH=empty))

    def why_not_heard(self, folder: str) -> str | None:
        """Ask GNU Radio itself whether its configuration now has the folder; if not, return its complaint."""
        told = _told(self.info, "--prefs", stderr=subprocess.STDOUT)
        if folder in block_folders(told):
            return None
        return " ".join(told.partition("WARNING:")[2].partition("[")[0].split()) or "the folder does not show there"

    def change_recent(self, files: list[str]) -> None:
        """Put our flowgraphs behind those that the user has opened, as far as there is room."""
        before = _read(self.state)
        try:
            recent = recent_flowgraphs(before or "")
            wanted = [file for file in recent if file in files or not is_our_flowgraph(file)]
            wanted += [file for file in files if file not in wanted]
            if wanted != recent:
                _write(self.state, before, with_recent_flowgraphs(before or "", wanted))
        except configparser.Error as error:
            raise RegistrationError(f"{self.state} is no file that Companion can read: {error}") from error

    @property
    def python(self) -> str | None:
        """The interpreter that runs Companion."""
        return interpreter_of(self.companion)

    def registration(self, told: InterpreterFacts) -> Registration:
        """Look at what is there now."""
        return Registration(
            config=str(self.config),
            blocks=[folder for folder in block_folders(_read(self.config) or "") if is_ours(folder)],
            state=str(self.state),
            flowgraphs=[file for file in recent_flowgraphs(_read(self.state) or "") if is_our_flowgraph(file)],
            companion=self.companion,
            python=self.python,
            package=told.package,
            link=told.existing_link,
            unusable={name: error for name, error in (told.errors or {}).items() if name != BLOCKS_GROUP},
            problem=self._problem(told),
        )

    def _problem(self, told: InterpreterFacts) -> str | None:
        if SETTING in os.environ:
            return f"the variable {SETTING} replaces what {self.config} says: unset it, or add {BLOCKS} to it"
        if self.python is None:
            return (
                f"{self.companion} does not say which Python runs it: install gr-oac for that Python, "
                "or start Companion by `oac-blocks companion`"
            )
        who = f"{self.python}, which runs Companion and its flowgraphs,"
        if told.package not in (None, str(PACKAGE)):
            return f"{who} has another gr-oac in {told.package}: remove it, or run its own `oac-blocks register`"
        if told.error(BLOCKS_GROUP):
            return (
                f"{who} does not import the blocks ({told.error(BLOCKS_GROUP)}): install what is missing for it "
                "(Debian, Ubuntu: apt-get install python3-scipy), or start Companion by `oac-blocks companion`"
            )
        return None


def _told(program: str, option: str, stderr: int = subprocess.DEVNULL, **variables: str) -> str:
    environment = {**os.environ, **variables}
    run = subprocess.run([program, option], stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment)
    if run.returncode:
        raise RegistrationError(f"{program} {option} fails with status {run.returncode}: is GNU Radio whole?")
    return run.stdout


def _read(file: Path) -> str | None:
    """Return the text of a file as it is on disk, and None if there is no file."""
    try:
        return file.read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RegistrationError(f"{file} cannot be read: {error.strerror}") from error


def _write(file: Path, before: str | None, after: str | None) -> None:
    """Replace a file whole, so that GNU Radio never reads half of it; an empty one is removed."""
    if (before or "") == (after or ""):
        return
    place = file.resolve()  # a link to a folder of dotfiles stays one
    try:
        if not after:
            place.unlink()
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_name(f"{place.name}.oac-{os.getpid()}")
        new.write_bytes(after.encode(errors="surrogateescape"))
        if before is not None:
            shutil.copymode(place, new)
        new.replace(place)
    except OSError as error:
        raise RegistrationError(f"{file} cannot be written: {error.strerror}") from error
