# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python that runs a plain Companion and what Companion generates: does it import our blocks, and how can it?

Where ``oac_blocks`` is not installed for it, a symbolic link in the user's site-packages names the package, and nothing
else of the environment that the package is in. The packages that it needs, numpy and scipy, are then that Python's own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from oac_blocks.companion.places import BLOCKS, FLOWGRAPHS, PACKAGE
from oac_blocks.errors import OacError

FIRST_LINE = re.compile(r"#!\s*(?:\S*/env\s+)?(\S*python[\d.]*)\s*")
BLOCKS_GROUP = "the blocks"
# It tells where this Python takes a user's packages from, which oac_blocks it finds, and which imports fail.
PROBE = """
import json, os, site, sys
told = {"user_site": site.getusersitepackages() if site.ENABLE_USER_SITE else None, "package": None, "errors": {}}
try:
    import oac_blocks
    told["package"] = os.path.realpath(oac_blocks.__path__[0])
except ImportError:
    pass
for group, statements in json.loads(sys.argv[1]).items():
    try:
        for statement in statements:
            exec(statement)
    except Exception as error:
        told["errors"][group] = str(error)
print(json.dumps(told))
"""


class RegistrationError(OacError):
    """GNU Radio is not there, or its configuration cannot be changed."""


@dataclass(frozen=True)
class InterpreterFacts:
    """Hold what an interpreter tells of itself."""

    user_site: str | None = None
    package: str | None = None
    errors: dict[str, str] | None = None  # of BLOCKS_GROUP and of flowgraphs, by name

    @property
    def link(self) -> Path | None:
        """The place of a link to the package; None if this Python takes no packages of a user's."""
        return Path(self.user_site) / PACKAGE.name if self.user_site else None

    @property
    def existing_link(self) -> str | None:
        return str(self.link) if self.link is not None and self.link.is_symlink() else None

    def error(self, group: str) -> str | None:
        return (self.errors or {}).get(group)


def interpreter_of(program: str) -> str | None:
    """Return the Python that a program names in its first line, and None if it names none."""
    with Path(program).open("rb") as file:
        line = file.readline(1000).decode(errors="replace")
    named = FIRST_LINE.match(line)
    return shutil.which(named[1]) if named else None


def probe(python: str | None, groups: Mapping[str, list[str]] | None = None) -> InterpreterFacts:
    """Have a Python try groups of import statements, started as a desktop does: without the variables of this shell."""
    if python is None:
        return InterpreterFacts()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [python, "-c", PROBE, json.dumps(groups or {})]
    run = subprocess.run(command, capture_output=True, text=True, cwd="/", env=environment)
    if run.returncode:
        raise RegistrationError(f"{python}, which runs Companion, fails: {run.stderr.strip()}")
    return InterpreterFacts(**json.loads(run.stdout.splitlines()[-1]))


def all_imports() -> dict[str, list[str]]:
    """Return the import statements of all blocks, and those of each flowgraph."""
    groups = {BLOCKS_GROUP: [line for file in BLOCKS.glob("*.block.yml") for line in _imports(file)]}
    return groups | {file.stem: _imports(file) for file in sorted(FLOWGRAPHS.glob("*.grc"))}


def _imports(file: Path) -> list[str]:
    return re.findall(r"^ +imports: (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)


def link_package(python: str | None) -> InterpreterFacts:
    """Make a Python find our package, if it finds none; a link to another installation is replaced.

    Returns
    -------
    InterpreterFacts
        What this Python then imports.
    """
    told = probe(python)
    if told.link is not None and told.package != str(PACKAGE) and (told.existing_link or not told.package):
        try:
            if told.existing_link:
                told.link.unlink()
            if not told.link.exists():
                told.link.parent.mkdir(parents=True, exist_ok=True)
                told.link.symlink_to(PACKAGE, target_is_directory=True)
        except OSError as error:
            raise RegistrationError(f"{told.link} cannot be made: {error.strerror}") from error
    return probe(python, all_imports())


def unlink_package(python: str | None) -> InterpreterFacts:
    """Remove the link to our package, or to another installation of it."""
    told = probe(python)
    if told.link is not None and told.existing_link:
        told.link.unlink()
    return probe(python)
