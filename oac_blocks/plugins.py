# SPDX-License-Identifier: GPL-3.0-or-later
"""Find parts by name: those of gr-oac, those that installed packages offer, and those that an import string names.

A part (a model, a data set, a policy, an air, a scheme) has one of three kinds of names:

- a name of gr-oac itself, ``"fair-k"``, which stands for an import string in the registry's own table;
- a name that an installed package offers by an entry point of the registry's group, ``gr_oac.policies`` say;
- an import string ``"package.module:attribute"``, for code that is installed nowhere but can be imported.

All three lead to an import string, and `Registry.load` imports it when the part is needed, not before.
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from oac_blocks.errors import OacError
from oac_blocks.names import canonical

T = TypeVar("T")

OWN = "gr-oac"  # the origin of the built-in parts
HERE = "this program"  # the origin of parts that a program has registered as objects
IMPORT_STRING = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
OBJECT_PREFIX = "python:"  # in a config that was written for objects without an import string


class PluginError(OacError, ValueError):
    """A part cannot be had by its name, or could not be made; the message says why."""


@dataclass(frozen=True)
class Offer:
    """Say where a part comes from."""

    name: str
    origin: str  # "gr-oac", the distribution that offers it, or "this program"
    target: str  # import string, or a description of the registered object


class Registry(Generic[T]):
    """Hold the parts of one kind by name.

    Parameters
    ----------
    kind : str
        What a part is called in errors, ``"policy"`` say.
    group : str
        Group of the entry points by which installed packages offer such parts.
    built_in : mapping
        Import string of each part of gr-oac, by name.
    aliases : mapping, optional
        Further names of parts.
    """

    def __init__(
        self, kind: str, group: str, built_in: Mapping[str, str], aliases: Mapping[str, str] | None = None
    ) -> None:
        self.kind, self.group = kind, group
        self._built_in, self._aliases = dict(built_in), dict(aliases or {})
        self._registered: dict[str, T] = {}
        self._entry_points: dict[str, EntryPoint] | None = None

    def register(self, name: str, part: T, replace: bool = False) -> None:
        """Make an object known by a name in this process; ValueError if the name is taken.

        With `replace`, the object takes the place of one that this process has registered before.
        """
        if replace:
            self._registered.pop(name, None)
        if name in self._aliases or name in self.names() or is_import_string(name):
            taken = f"must have a name that is free; there are {', '.join(self.names())}"
            raise ValueError(f"{self.kind} {name!r} {taken}")
        self._registered[name] = part

    def unregister(self, name: str) -> None:
        """Remove an object that `register` has added."""
        del self._registered[name]

    def names(self) -> tuple[str, ...]:
        """Return all names, those of gr-oac first."""
        return tuple(dict.fromkeys((*self._built_in, *self._offered(), *self._registered)))

    def offers(self) -> list[Offer]:
        """Return all parts with their origin, those of gr-oac first."""
        own = [Offer(name, OWN, target) for name, target in self._built_in.items()]
        offered = [
            Offer(name, point.dist.name if point.dist else "?", point.value)
            for name, point in self._offered().items()
            if name not in self._built_in
        ]
        here = [Offer(name, HERE, _described(part)) for name, part in self._registered.items()]
        return own + offered + here

    def canonical(self, name: str) -> str:
        """Return the name that `name` means: a known name in any spelling, or an import string as it is.

        The import string of a built-in part means that part.

        Nothing is imported. Raise ValueError for an unknown name.
        """
        if is_import_string(name) or name.startswith(OBJECT_PREFIX):
            return next((own for own, target in self._built_in.items() if target == name), name)
        if ":" in name:
            raise ValueError(f"{name!r} is no import string; write package.module:attribute, or a name")
        if name in self._aliases:
            return self._aliases[name]
        return canonical(self.kind, name, self.names())

    def load(self, name: str) -> T:
        """Return the part of this name, and import it first where needed.

        Raises
        ------
        PluginError
            If there is no such part, or if its module cannot be imported.
        """
        if name.startswith(OBJECT_PREFIX):
            raise PluginError(
                f"{name!r} was an object of a Python program, which a config cannot name; run that program again"
            )
        try:
            name = self.canonical(name)
        except ValueError as error:
            raise PluginError(str(error)) from None
        if name in self._registered:
            return self._registered[name]
        point = self._offered().get(name)
        target = self._built_in.get(name) or (name if point is None else point.value)
        part: T = load_object(target)
        return part

    def _offered(self) -> dict[str, EntryPoint]:
        """Return the entry points of installed packages; where two share a name, the first counts, as in imports."""
        if self._entry_points is None:
            self._entry_points = {}
            for point in entry_points(group=self.group):
                if point.name not in self._built_in:
                    self._entry_points.setdefault(point.name, point)
        return self._entry_points


def is_import_string(text: str) -> bool:
    """Say whether a text has the form ``package.module:attribute``."""
    return IMPORT_STRING.fullmatch(text) is not None


def import_string_of(part: object) -> str | None:
    """Return the import string of a class or function, or None if another process could not import it by one."""
    module, name = getattr(part, "__module__", None), getattr(part, "__qualname__", None)
    text = f"{module}:{name}"
    if module in (None, "__main__", "__mp_main__", "builtins") or not is_import_string(text):
        return None
    try:
        return text if load_object(text) is part else None
    except PluginError:
        return None


def is_factory(given: object, method: str) -> bool:
    """Say whether something makes a part, as classes and functions do, and is none itself: a part has this method."""
    return isinstance(given, type) or (callable(given) and not hasattr(given, method))


def load_object(target: str) -> Any:
    """Return the object that an import string names; modules in the current folder are found, too.

    Raises
    ------
    PluginError
        If the module or the attribute is not there, or if the module raises an error.
    """
    module_name, _, path = target.partition(":")
    _let_imports_find_the_current_folder()
    try:
        found: Any = import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise PluginError(
                f"{target!r}: there is no module {missing!r} among the installed packages or in {Path.cwd()}"
            ) from None
        raise PluginError(f"{target!r}: the module {module_name} needs {missing!r}, which is missing") from error
    except Exception as error:
        raise PluginError(f"{target!r}: importing {module_name} raised {_told(error)}") from error
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            hint = did_you_mean(name, [one for one in dir(found) if not one.startswith("_")])
            raise PluginError(f"{target!r}: the module {module_name} has no {path!r}{hint}") from None
    return found


def call(factory: Callable[..., T], what: str, args: Mapping[str, Any], facts: Mapping[str, Any]) -> T:
    """Call a factory with a user's arguments, and with those facts that its signature asks for by name.

    Parameters
    ----------
    factory : callable
        A class or a function.
    what : str
        The setting that named the factory, for errors: ``"[model] name = 'mynets:build'"``.
    args : mapping
        The user's arguments, from a table such as ``[model.args]``. They take precedence over facts.
    facts : mapping
        What the caller knows, the number of classes say. A factory gets those that it has a parameter for.

    Raises
    ------
    PluginError
        If the arguments do not fit the signature, or if the factory raises an error.
    """
    if not callable(factory):
        raise PluginError(f"{what}: this is {_described(factory)}, which cannot be called")
    try:
        parameters = dict(inspect.signature(factory).parameters)
    except (TypeError, ValueError):  # a callable of an extension module has no signature
        parameters = {}
    open_ended = not parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    named = {name for name, one in parameters.items() if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    title = getattr(factory, "__name__", type(factory).__name__)
    unknown = [name for name in args if name not in named and not open_ended]
    if unknown:
        own = sorted(named - facts.keys()) or sorted(named)
        takes = f"there are {', '.join(own)}" if own else "it takes none"
        raise PluginError(f"{what}: {title}() has no argument {unknown[0]!r}; {takes}")
    # An underscore in front marks a parameter that the factory does not use.
    known = {name: facts[name.lstrip("_")] for name in named if name.lstrip("_") in facts}
    given = {**known, **args}
    lacking = [
        name for name, one in parameters.items() if name in named and one.default is one.empty and name not in given
    ]
    if lacking:
        hint = f" (known here: {', '.join(sorted(facts))})" if facts else ""
        raise PluginError(f"{what}: {title}() needs a value for {lacking[0]!r}; set it in args{hint}")
    try:
        return factory(**given)
    except OacError:
        raise
    except Exception as error:
        raise PluginError(f"{what}: {title}() raised {_told(error)}") from error


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the nearest known name, or an empty string."""
    close = difflib.get_close_matches(given, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _let_imports_find_the_current_folder() -> None:
    """Append the current folder to the import path, where the interpreter has it but an installed command has not."""
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)


def _described(part: object) -> str:
    return import_string_of(part) or f"an object of type {type(part).__name__}"


def _told(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
