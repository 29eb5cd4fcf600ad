# SPDX-License-Identifier: GPL-3.0-or-later
"""Edit the texts of two files of GNU Radio's: the user's config.conf, and grc.conf, where Companion keeps its state.

GNU Radio reads config.conf by Boost's rules: ``#`` begins a comment anywhere in a line, sections and keys may be in any
case, and of two lines with one key the later one holds.
"""

from __future__ import annotations

import configparser
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

SECTION, KEY = "grc", "local_blocks_path"
# Stands behind what was added, so that it can be taken back whole. Companion drops comments when it writes the file;
# our folder is then taken out of the line, and the line stays.
MARK = "# added by oac-blocks register"
RECENT = "files_recent"
MOST_RECENT = 10  # flowgraphs that Companion keeps in File > Open Recent

ENTRY = re.compile(r"(?P<head>[^#=]*=[ \t]*)(?P<value>[^#\r\n]*?)(?P<tail>[ \t]*(#[^\r\n]*)?\r?\n?)")


@dataclass(eq=False)  # two lines with one text are still two lines
class _Line:
    text: str
    section: str

    @property
    def stripped(self) -> str:
        return self.text.partition("#")[0].strip()

    @property
    def name(self) -> str:
        """Section and key of a setting, in small letters; nothing for other lines."""
        if "=" not in self.stripped:
            return ""
        key = self.stripped.partition("=")[0].strip().lower()
        return f"{self.section}.{key}" if self.section else key

    @property
    def is_header(self) -> bool:
        return self.stripped.startswith("[") and self.stripped.endswith("]")

    @property
    def folders(self) -> list[str]:
        return [folder for folder in self.stripped.partition("=")[2].strip().split(os.pathsep) if folder]

    @folders.setter
    def folders(self, folders: Sequence[str]) -> None:
        parts = ENTRY.fullmatch(self.text)
        assert parts is not None, self.text  # the line has a name
        self.text = f"{parts['head']}{os.pathsep.join(folders)}{parts['tail']}"


def _lines(text: str) -> list[_Line]:
    lines, section = [], ""
    for part in re.findall(r"[^\n]*\n|[^\n]+", text):
        line = _Line(part, section)
        if line.is_header:
            line.section = section = line.stripped[1:-1].strip().lower()
        lines.append(line)
    return lines


def _of_folders(lines: list[_Line]) -> list[_Line]:
    return [line for line in lines if line.name == f"{SECTION}.{KEY}"]


def block_folders(text: str) -> list[str]:
    """Return the folders of blocks that the last line with this key names.

    Examples
    --------
    >>> block_folders("[grc]\\nlocal_blocks_path = /a:/b  # mine\\n")
    ['/a', '/b']
    """
    named = _of_folders(_lines(text))
    return named[-1].folders if named else []


def with_folder(text: str, folder: str, is_ours: Callable[[str], bool], inherited: Sequence[str] = ()) -> str:
    """Return the text of config.conf with this folder of blocks, in place of other folders that are ours.

    Parameters
    ----------
    text : str
        The file as it is.
    folder : str
        The folder to name.
    is_ours : callable
        Says of a folder whether it is one of an installation of this project.
    inherited : sequence of str
        The folders that the system's own configuration names. A line in the user's file replaces that, so they are
        named there too.
    """
    lines = _lines(text)
    named = _of_folders(lines)
    for line in named:
        wanted = [other for other in line.folders if not is_ours(other) or other == folder]
        if line is named[-1] and folder not in wanted:
            wanted.append(folder)
        if wanted != line.folders:
            line.folders = wanted
    if named:
        return "".join(line.text for line in lines)
    setting = f"{KEY} = {os.pathsep.join([*inherited, folder])}  {MARK}\n"
    for place, line in enumerate(lines):
        if line.is_header and line.section == SECTION:
            whole = line.text if line.text.endswith("\n") else f"{line.text}\n"
            return "".join(
                [*(one.text for one in lines[:place]), whole, setting, *(one.text for one in lines[place + 1 :])]
            )
    gap = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{gap}[{SECTION}]  {MARK}\n{setting}"


def without_folders(text: str, is_ours: Callable[[str], bool], inherited: Sequence[str] = ()) -> str:
    """Return the text of config.conf without the folders that are ours, and without lines that were added for them."""
    lines = _lines(text)
    for line in _of_folders(lines):
        kept = [folder for folder in line.folders if not is_ours(folder)]
        if kept == line.folders:
            continue
        if MARK in line.text and kept in ([], list(inherited)):
            lines.remove(line)
        else:
            line.folders = kept
    for header in [line for line in lines if line.is_header and MARK in line.text]:
        if not any(line.name and line.section == header.section for line in _until_header(lines, header)):
            lines.remove(header)
    return "".join(line.text for line in lines)


def _until_header(lines: list[_Line], header: _Line) -> Iterator[_Line]:
    """The lines of this header's section."""
    places = [place for place, line in enumerate(lines) if line is header]
    for line in lines[places[0] + 1 :]:
        if line.is_header:
            return
        yield line


def recent_flowgraphs(text: str) -> list[str]:
    """Return the flowgraphs that Companion offers in File > Open Recent, from its state in grc.conf."""
    state = _state(text)
    return [value for name, value in state.items(RECENT)] if state.has_section(RECENT) else []


def with_recent_flowgraphs(text: str, files: Sequence[str]) -> str:
    """Return the text of grc.conf with this list of recent flowgraphs; an empty text if nothing is left in it."""
    state = _state(text)
    state.remove_section(RECENT)
    if files:
        state[RECENT] = {f"{RECENT}_{number}": file for number, file in enumerate(files[:MOST_RECENT])}
    if not any(state[name] for name in state.sections()):
        return ""
    written = io.StringIO()
    state.write(written)
    return f"# The state of GNU Radio Companion, which writes this file anew when it ends.\n\n{written.getvalue()}"


def _state(text: str) -> configparser.ConfigParser:
    """Read the state as Companion does, but for the percent sign, which Companion's own reader stumbles over."""
    state = configparser.ConfigParser(interpolation=None)
    state.read_string(text)
    return state
