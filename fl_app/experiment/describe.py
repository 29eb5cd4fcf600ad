# SPDX-License-Identifier: GPL-3.0-or-later
"""Translate the arguments of an experiment into settings, and into objects where settings cannot name them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from fl_app.air.settings import AirSettings
from fl_app.config import ConfigError
from fl_app.core.task import CustomTask, Task
from fl_app.data.data import Data, as_data
from fl_app.data.dataset import Dataset
from fl_app.experiment.pieces import AIR_PIECES, Dirichlet, Iid, LocalSGD, Shards
from oac_blocks.dsp.waveform.schemes import Scheme, name_of_scheme
from oac_blocks.plugins import OBJECT_PREFIX, import_string_of, is_factory

Section = dict[str, Any]
_PARTITIONS = {"iid": Iid, "dirichlet": Dirichlet, "shards": Shards}


class CopyOf:
    """Build a model as a copy of one that exists, its weights included."""

    def __init__(self, model: nn.Module) -> None:
        self._model, self.__name__ = model, type(model).__name__

    def __call__(self) -> nn.Module:
        return copy.deepcopy(self._model)


def name_of(part: Any, given: str | None = None) -> str:
    """Return the name by which settings keep an object: its import string, or ``python:`` and its type."""
    label = given or getattr(part, "__name__", type(part).__name__)
    return import_string_of(part) or f"{OBJECT_PREFIX}{label}"


def describe_model(model: Any, args: Mapping[str, Any] | None) -> tuple[Section, Any]:
    """Return the section [model], and the factory if the model is none of the registered ones."""
    if isinstance(model, str):
        return {"name": model, "args": dict(args or {})}, None
    factory = CopyOf(model) if isinstance(model, nn.Module) else model
    if not callable(factory):
        raise ConfigError(f"model must be a name, an import string or a function that builds it, not {model!r}")
    return {"name": name_of(factory), "args": dict(args or {})}, factory


def describe_data(data: Any, args: Mapping[str, Any] | None) -> tuple[Section, Data | None]:
    """Return keys of the section [data], and the data if it is none of the registered sets."""
    if isinstance(data, str):
        return {"name": data, "args": dict(args or {})}, None
    if not isinstance(data, Data | Dataset | tuple | list):
        raise ConfigError(
            f"data must be a name, an import string, a Data or a pair (train, test), not {type(data).__name__}"
        )
    given = as_data(data, "data")
    return {"name": f"{OBJECT_PREFIX}{given.name}"}, given


def describe_partition(partition: Any) -> tuple[Section, Sequence[Any] | None]:
    """Return keys of the section [data], and the lists of sample indices if these are given."""
    if isinstance(partition, Iid | Dirichlet | Shards):
        return partition.section(), None
    if isinstance(partition, str):
        if partition not in _PARTITIONS:
            raise ConfigError(f"partition = {partition!r}: there are {', '.join(_PARTITIONS)}")
        return _PARTITIONS[partition]().section(), None
    if isinstance(partition, Sequence):
        return {}, partition
    raise ConfigError(
        f"partition must be Iid(), Dirichlet(alpha), Shards(n), one of their names, or a list of the sample indices of "
        f"each client, not {type(partition).__name__}"
    )


def describe_policy(policy: Any) -> tuple[str, Any]:
    """Return the key `policy` of [selection], and the object if one is given."""
    if isinstance(policy, str):
        return policy, None
    named = name_of(policy) if is_factory(policy, "next") else f"{OBJECT_PREFIX}{type(policy).__name__}"
    return named, policy if named.startswith(OBJECT_PREFIX) else None


def describe_selection(
    policy: Any, args: Mapping[str, Any] | None, **shares: float | int | None
) -> tuple[Section, Any]:
    """Return the section [selection], and the policy if an object is given; a share that is None is left out."""
    named, own = describe_policy(policy)
    given = {key: value for key, value in shares.items() if value is not None}
    return {"policy": named, "args": dict(args or {}), **given}, own


def describe_air(
    air: Any, args: Mapping[str, Any] | None, scheme: str | Scheme | type[Scheme] | None = None
) -> tuple[Section, Any]:
    """Return the section [air] with this scheme, if one is given, and the object if the air is one."""
    section, own = _air_section(air, args)
    return section if scheme is None else {**section, "mode": name_of_scheme(scheme)}, own


def _air_section(air: Any, args: Mapping[str, Any] | None) -> tuple[Section, Any]:
    if isinstance(air, str):
        chosen = AIR_PIECES[air]() if air in AIR_PIECES else AirSettings(name=air)
        return {**chosen.plain(), "args": dict(args or {})}, None
    if isinstance(air, AirSettings):
        return air.plain(), None
    factory = is_factory(air, "uplink")
    if not factory and not callable(getattr(air, "uplink", None)):
        raise ConfigError(
            f"air must be a name, settings such as Waveform(snr_db=20), an object with uplink(payload, clients, t), or "
            f"a class or function that makes one, not {type(air).__name__}"
        )
    named = name_of(air) if factory else f"{OBJECT_PREFIX}{type(air).__name__}"
    section = {"name": named, "mode": name_of_scheme(getattr(air, "scheme", "analog")), "args": dict(args or {})}
    return section, air if named.startswith(OBJECT_PREFIX) else None


def describe_task(task: Any, local: LocalSGD) -> tuple[Section, Task | None]:
    """Return the section [task], and the task if it is an object or made of a loss."""
    if local.loss is not None or local.metrics is not None:
        if task is not None:
            raise ConfigError("task and LocalSGD(loss=..., metrics=...) both say what is learned: give one of them")
        if local.loss is None:
            raise ConfigError("LocalSGD(metrics=...) needs loss=..., too")
        return {"name": f"{OBJECT_PREFIX}loss"}, CustomTask(local.loss, local.metrics)
    if task is None or isinstance(task, str):
        return {"name": task or ""}, None
    if not isinstance(task, Task):
        raise ConfigError(f"task must be a name, an import string or a Task, not {type(task).__name__}")
    return {"name": f"{OBJECT_PREFIX}{task.name}"}, task
