# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan a sweep: one run for each combination of values and each seed, each with its settings and its folder."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fl_app.config import ConfigError, Settings
from fl_app.runs.run_folder import RunError, RunFolder
from fl_app.toml_text import parse_value, value_text
from oac_blocks.bench.section import NONE

# Settings of [run] that may differ between two calls, as they do not change a result.
HOW_NOT_WHAT: dict[str, Any] = {"out": "", "workers": 0, "checkpoint_every": 1}
LONGEST_NAME = 120  # characters of a folder's name; a longer name is cut

Values = dict[str, Any]  # by "section.key"
# Names a changed value in an error: words("air.snr_db", "10") is "--vary air.snr_db=10".
Words = Callable[[str, str], str]


@dataclass(frozen=True, eq=False)
class SweepRun:
    """Describe one run of a sweep."""

    values: Values  # values of the varied keys, as the settings have them
    seed: int
    settings: Settings
    folder: RunFolder

    @property
    def name(self) -> str:
        return self.folder.path.name

    @property
    def title(self) -> str:
        """Return what distinguishes this run, for people: "k_m_ratio = 0.25, snr_db = 10, seed 1"."""
        return ", ".join([*combination_texts(self.values), f"seed {self.seed}"])

    @property
    def is_finished(self) -> bool:
        """Say whether this run has its result and its report."""
        return self.folder.read_result() is not None and self.folder.report.is_file()

    @property
    def rounds_done(self) -> int:
        """Return the number of rounds that the latest checkpoint covers."""
        if self.folder.read_result() is not None:
            return self.settings.run.rounds
        checkpoint = self.folder.latest()
        return 0 if checkpoint is None else checkpoint.rounds_done


def parse_vary(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values by key of texts such as "air.snr_db=0,10,20" and "selection.policy=fair-k,top-k".

    The values are written as in TOML; strings need no quotes.
    """
    vary: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, values = (part.strip() for part in text.partition("="))
        pieces = _split(values)
        if not equals or "." not in key or not all(pieces):
            raise ConfigError(
                f"--vary {text}: write section.key=value,value,..., for example --vary air.snr_db=0,10,20"
            )
        if key in vary:
            raise ConfigError(f"--vary {key} stands twice: write all values behind one --vary, separated by commas")
        vary[key] = [parse_value(piece) for piece in pieces]
    return vary


# A string in double or single quotes, as in TOML; a bracket; a comma; any other character.
_TOKENS = re.compile(r"""  "(?:[^"\\]|\\.)*"  |  '[^']*'  |  .  """, re.DOTALL | re.VERBOSE)


def _split(text: str) -> list[str]:
    """Split at the commas that stand neither in quotes nor in brackets."""
    pieces, depth = [""], 0
    for token in _TOKENS.findall(text):
        depth += (token in "[{") - (token in "]}")
        if token == "," and depth <= 0:
            pieces.append("")
        else:
            pieces[-1] += token
    return [piece.strip() for piece in pieces]


def plan(
    settings: Settings,
    vary: Mapping[str, Sequence[Any]],
    seeds: Sequence[int],
    path: Path,
    words: Words = lambda key, value: f"vary {key}={value}",
    name_of: Callable[[Values, int], str] | None = None,
) -> list[SweepRun]:
    """Return all runs in the order of the seeds, so that a stopped sweep has whole seeds to show.

    Parameters
    ----------
    settings
        What the runs share.
    vary
        For each "section.key" the values that it takes.
    seeds
        Each combination is played with each of these seeds.
    path
        The folder of the sweep, in which each run has its own.
    words
        Names a value in an error.
    name_of
        Names the folder of a run; by default after the values and the seed.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise ConfigError(f"seeds {', '.join(map(str, seeds))}: give at least one seed, and each seed once")
    for key, values in vary.items():
        if isinstance(values, str) or not values:
            raise ConfigError(f"vary {key}: {values!r} is no list of values")
        if key == "run.seed":
            raise ConfigError(f"{words(key, value_text_of(values[0]))}: give the seeds as --seeds 1,2,3")
    runs: list[SweepRun] = []
    for seed in seeds:
        for values in itertools.product(*vary.values()):
            changes = {
                f"{key}={value_text(NONE if value is None else value)}": words(key, value_text_of(value))
                for key, value in zip(vary, values, strict=True)
            }
            own = settings.with_changes({f"run.seed={seed}": f"seed {seed}", **changes}).with_values(
                run={"workers": 0, "out": ""}  # each run is computed in one process
            )
            settled = {key: _settled(own, key, value) for key, value in zip(vary, values, strict=True)}
            name = (name_of or folder_name)(settled, seed)
            runs.append(SweepRun(settled, seed, own, RunFolder(path / name)))
    _refuse_repeats(runs)
    return runs


def _settled(settings: Settings, key: str, given: Any) -> Any:
    """Return the value of a key as the checked settings have it, so that 0 and 0.0 are the same."""
    value: Any = settings
    for part in key.split("."):
        try:
            value = value[part] if isinstance(value, Mapping) else getattr(value, part)
        except (AttributeError, KeyError):  # a key that stands for one of another section
            return given
    return value


def _refuse_repeats(runs: Sequence[SweepRun]) -> None:
    """Refuse two runs with the same settings: they would be the same run."""
    seen: dict[str, SweepRun] = {}
    for run in runs:
        same = seen.setdefault(_what(run.settings).model_dump_json(), run)
        if same is not run:
            both = same.title if same.title == run.title else f"({same.title}) and ({run.title})"
            raise ConfigError(f"two runs of the sweep have the same settings: {both}; give each value once")


def _what(settings: Settings) -> Settings:
    """Return the settings without what changes no result."""
    return settings.with_values(run=HOW_NOT_WHAT)


def value_text_of(value: Any) -> str:
    """Return a value for people and folders: 10 for 10.0, none for None, strings without quotes."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return NONE if value is None else value_text(value)


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """Return each key without its section, unless that names two of them, as `lr` does."""
    last = {key: key.rpartition(".")[2] for key in keys}
    return {key: name if list(last.values()).count(name) == 1 else key for key, name in last.items()}


def combination_texts(values: Mapping[str, Any]) -> list[str]:
    """Return "k_m_ratio = 0.25" for each value."""
    short = short_keys(list(values))
    return [f"{short[key]} = {value_text_of(value)}" for key, value in values.items()]


def folder_name(values: Mapping[str, Any], seed: int) -> str:
    """Return k_m_ratio=0.25_snr_db=10-seed1. A name that a folder cannot have gets a hash of the whole."""
    whole = "_".join(text.replace(" = ", "=", 1) for text in combination_texts(values))
    safe = re.sub(r"[^\w.=+-]", "-", whole)[:LONGEST_NAME].lstrip(".-")
    if safe != whole:
        safe += "-" + hashlib.sha256(whole.encode()).hexdigest()[:8]
    return f"{safe}-seed{seed}" if safe else f"seed{seed}"


def refuse_other_settings(runs: Sequence[SweepRun]) -> None:
    """Raise RunError if the folder of a run holds one with other settings, or cannot be made."""
    for run in runs:
        folder = run.folder
        if not folder.exists:
            continue
        earlier, now = _what(folder.settings()).model_dump(), _what(run.settings).model_dump()
        changed = [
            f"[{section}] {key} = {value_text_of(earlier[section].get(key))}, now {value_text_of(value)}"
            for section, values in now.items()
            for key, value in values.items()
            if earlier[section].get(key) != value
        ]
        if changed:
            raise RunError(
                f"{folder.path} holds a run with other settings ({'; '.join(changed)}): choose another --out, or "
                "remove it"
            )
    new = next((run for run in runs if not run.folder.exists), None)
    if new is not None:
        RunFolder.plan(new.settings, new.folder.path)
