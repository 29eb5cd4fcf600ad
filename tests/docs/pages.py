# SPDX-License-Identifier: GPL-3.0-or-later
"""Read commands, programs and files out of the documentation's pages."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from tests.support.paths import ROOT

PROGRAMS = ("fl_app", "oac-blocks", "oac-calibrate", "oac-virtual-pluto", "make", "python", "pytest")
OUR_PROGRAMS = PROGRAMS[:4]
_SHELL = ("", "sh", "bash", "console")  # languages of fenced blocks that hold commands; "text" holds none
_FENCE = re.compile(r"^ *```(\w*)")
_ASSIGNMENT = re.compile(r"^[A-Z_]+=")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. ``line`` is that of its fence."""

    page: str
    line: int
    language: str
    text: str


@dataclass(frozen=True)
class Command:
    """A shell command as a reader would type it, without the prompt and the remark behind it."""

    page: str
    line: int
    block_line: int
    text: str


def pages() -> list[str]:
    """Return the pages of the project, relative to its root."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "grc_flows" / "README.md", *ROOT.glob("docs/**/*.md")]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page in their order."""
    found: list[Block] = []
    begin, language, lines = 0, "", list[str]()
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if fence and begin:
            found.append(Block(page, begin, language, "\n".join(lines)))
            begin = 0
        elif fence:
            begin, language, lines = number, fence[1], []
        elif begin:
            lines.append(line)
    return found


def one_program(found: list[Block]) -> list[Block]:
    """Join the Python blocks of a page into the first of them; a traceback then has the line numbers of the page."""
    python = [block for block in found if block.language == "python"]
    lines: list[str] = []
    for block in python:
        lines += [""] * (block.line - len(lines)) + block.text.splitlines()
    joined = Block(python[0].page, python[0].line, "python", "\n".join(lines))
    return [joined if block is python[0] else block for block in found if block not in python[1:]]


def commands(block: Block) -> list[Command]:
    """Return the commands of a shell block. Lines of output and empty lines are passed over."""
    if block.language not in _SHELL:
        return []
    found, pending, first = [], "", 0
    for offset, raw in enumerate(block.text.splitlines(), 1):
        line = raw.strip().removeprefix("$ ")
        if not pending:
            if _program(line) not in PROGRAMS:
                continue
            first = block.line + offset
        if line.endswith("\\"):
            pending += line[:-1].rstrip() + " "
            continue
        text = re.split(r"\s+#\s", pending + line)[0].rstrip()
        found.append(Command(block.page, first, block.line, text.removesuffix("&").rstrip()))
        pending = ""
    return found


def _program(line: str) -> str:
    """Return the program that a line calls, behind the variables that it may set first."""
    try:
        words = shlex.split(line.removesuffix("\\"))
    except ValueError:  # a quotation mark in a line of output
        return ""
    return next((word for word in words if not _ASSIGNMENT.match(word)), "")


def inline_commands(page: str) -> list[Command]:
    """Return our own commands that stand in the running text and in tables, between backticks."""
    found = []
    fenced = False
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            for span in re.findall(r"`([^`]+)`", line):
                words = span.split()
                if len(words) > 1 and words[0] in OUR_PROGRAMS:
                    found.append(Command(page, number, number, span))
    return found


def words_of(command: Command) -> list[str]:
    """Split a command as a shell does, up to the first pipe or redirection."""
    words = shlex.split(command.text, comments=True)
    ends = [at for at, word in enumerate(words) if word in ("|", ">", "&&", ";")]
    return words[: min(ends, default=len(words))]


def file_of(block: Block) -> str:
    """Return the name of the file that a block shows (``# bench.toml: ...`` in its first line), or nothing."""
    ending = {"toml": "toml", "python": "py"}.get(block.language)
    named = re.match(rf"# ([\w.-]+\.{ending})\b", block.text)
    return named[1] if ending and named else ""
