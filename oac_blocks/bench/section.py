# SPDX-License-Identifier: GPL-3.0-or-later
"""Sections of a config file as pydantic models: what a key may hold stands once, beside the key.

The same words make the error about a wrong value, and the comment behind the key in a config that is written.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, get_args

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from oac_blocks.dsp.checks import shown
from oac_blocks.errors import OacError
from oac_blocks.plugins import Registry

NONE = "none"  # TOML has no null; this word stands for it where a key allows None, as in snr_db = "none"
LONG_LIST = 12  # an error lists all allowed names up to this many, and only the nearest one beyond


class ConfigError(OacError, ValueError):
    """A setting is wrong; the message names the section, the key, the value and what is allowed.

    Examples
    --------
    >>> try:
    ...     oac.Waveform(snr=20)
    ... except oac.ConfigError as error:
    ...     print(error)
    [air] snr: unknown key; did you mean 'snr_db'?
    """


class Section(BaseModel):
    """The base of all sections: frozen, no unknown keys, no silent conversion of types."""

    # strict: "3" is no number and true is no count, as in TOML itself
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    SECTION: ClassVar[str] = ""  # name of the section in a config

    def __init__(self, **values: Any) -> None:
        """Check the values; ConfigError names each that is wrong."""
        try:
            super().__init__(**values)
        except ValidationError as error:
            sections = {self.SECTION: list(type(self).model_fields)}
            faults = (explain([self.SECTION, *map(str, one["loc"])], dict(one), sections) for one in error.errors())
            raise ConfigError("\n".join(faults)) from None

    # Without this mark pydantic would call __init__ for a section inside a whole config, too, and the faults of
    # single keys would reach the caller as one text instead of a list with places.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @model_validator(mode="before")
    @classmethod
    def _plain_values(cls, given: Any) -> Any:
        """Take the word for None as None, and numpy's numbers as the plain ones that they stand for."""
        if not isinstance(given, dict):
            return given
        optional = {key for key, field in cls.model_fields.items() if none_word(field)}
        return {
            key: None if isinstance(value, str) and value == NONE and key in optional else plain_number(value)
            for key, value in given.items()
        }

    def plain(self) -> dict[str, Any]:
        """Return the values as TOML can hold them. A key without a word for None is left out where it is None."""
        values = {}
        for key, field in type(self).model_fields.items():
            value = getattr(self, key)
            if value is not None or none_word(field):
                values[key] = NONE if value is None else value
        return values

    def with_values(self, **changes: Any) -> Self:
        """Return a checked copy with some values changed."""
        return type(self)(**{**self.plain(), **changes})

    @classmethod
    def comments(cls) -> dict[str, str]:
        """Return what each key is for, its unit, and which values it may have, in a line each."""
        return {key: _comment(field) for key, field in cls.model_fields.items()}


def plain_number(value: Any) -> Any:
    """Return a number of another library, numpy say, as int or float; anything else as it is."""
    if isinstance(value, bool | int | float) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def optional(default: Any, *, none: str, **limits: Any) -> Any:
    """Return a pydantic field that may be None. ``none`` says what None, written ``"none"`` in a config, stands for."""
    return Field(default, json_schema_extra={"none": none}, **limits)


def none_word(field: FieldInfo) -> str:
    """Return what None stands for in this field, or an empty string where a config has no word for it."""
    extra = field.json_schema_extra
    return str(extra.get("none", "")) if isinstance(extra, dict) else ""


def explain(location: Sequence[str], fault: Mapping[str, Any], sections: Mapping[str, Sequence[str]]) -> str:
    """Return one of pydantic's errors as one sentence: section, key, value, what is allowed.

    Parameters
    ----------
    location : sequence of str
        The section and the keys below it.
    fault : mapping
        The error, as ``ValidationError.errors()`` gives it.
    sections : mapping
        The keys of each section, for a hint where a key is unknown.
    """
    if not location:  # two sections do not fit each other; the text names them
        return str(fault["ctx"]["error"])
    section, keys = location[0], location[1:]
    if not keys and fault["type"] == "extra_forbidden":
        return f"[{section}]: unknown section; {nearest(section, list(sections))}"
    if not keys:
        wrong_type = f"must be a section, not {fault['input']!r}"
        return f"[{section}] {fault['ctx']['error'] if fault['type'] == 'value_error' else wrong_type}"
    key, known = keys[-1], sections.get(section, [])
    if fault["type"] == "extra_forbidden":
        homes = [other for other, names in sections.items() if key in names]
        hint = f"it belongs to [{homes[0]}]" if homes else nearest(key, known)
        return f"[{section}] {key}: unknown key; {hint}"
    value = fault["input"]
    if fault["type"] == "literal_error":
        allowed = fault["ctx"]["expected"].replace(" or ", ", ").replace("'", "").split(", ")
        return f"[{section}] {key} = {shown(value)}: {nearest(str(value), allowed)}"
    if fault["type"] == "value_error":
        return f"[{section}] {key} = {shown(value)}: {fault['ctx']['error']}"
    return f"[{section}] {'.'.join(keys)} = {shown(value)}: {_ask(fault['msg'])}"


def nearest(given: str, allowed: Sequence[str]) -> str:
    """Return a hint: the allowed name that is nearest to the given one, and all of them if they are few."""
    close = difflib.get_close_matches(given, allowed, n=1, cutoff=0.5)
    if close and len(allowed) > LONG_LIST:
        return f"did you mean {close[0]!r}?"
    return (f"did you mean {close[0]!r}? " if close else "") + f"There are {', '.join(allowed)}"


def known_name(registry: Registry[Any], name: str) -> str:
    """Return the name that a registry has for a part, or an import string as it is; ValueError with a hint."""
    try:
        return registry.canonical(name)
    except ValueError as error:
        raise ValueError(str(error) if ":" in name else nearest(name, registry.names())) from None


def _ask(message: str) -> str:
    message = message.replace("Input should be", "must be", 1)
    return message.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")


def _comment(field: FieldInfo) -> str:
    limits = {type(limit): limit for limit in field.metadata if isinstance(limit, Ge | Gt | Le | Lt)}
    bounds = {Ge: "at least", Gt: "above", Le: "at most", Lt: "below"}
    values = {kind: f"{getattr(limits[kind], kind.__name__.lower()):g}" for kind in bounds if kind in limits}
    texts = [f"{bounds[kind]} {value}" for kind, value in values.items()]
    if Ge in values and Le in values:
        texts = [f"{values[Ge]} to {values[Le]}"]
    if getattr(field.annotation, "__origin__", None) is Literal:
        texts = [", ".join(get_args(field.annotation))]
    elif field.annotation is bool:
        texts = ["true or false"]
    none = none_word(field)
    parts = [field.description or "", ", ".join(texts), f'"{NONE}": {none}' if none else ""]
    return "; ".join(part for part in parts if part)
