# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run is made of: one TOML file in sections, checked before anything starts.

    settings = load_settings("configs/quickstart.toml", ["run.rounds=20", "selection.policy=top-k"])

Imports no torch, so that the command line answers at once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from fl_app.air.settings import AirSettings
from fl_app.core.catalog import MODELS, POLICIES, TASKS
from fl_app.core.selection import CANDIDATE_RATIO, MAGNITUDE_SHARE
from fl_app.core.settings import ClientsSection, ServerSection, training_fault
from fl_app.data.registry import DATASETS
from fl_app.engine.settings import EngineSection
from fl_app.toml_text import parse_value, to_toml
from oac_blocks.bench.config import RATE, RadiosSection, read_toml, with_one_rate
from oac_blocks.bench.section import ConfigError as ConfigError
from oac_blocks.bench.section import Section, explain, known_name, nearest
from oac_blocks.plugins import OBJECT_PREFIX

QUICKSTART = "quickstart.toml"
PAPER_RHO = 0.1
DEFAULT_PORT = 7780  # TCP port on which the server of the link listens


class RunSection(Section):
    SECTION: ClassVar[str] = "run"

    seed: int = Field(1, ge=0, description="everything random follows from it")
    rounds: int = Field(100, ge=1, description="communication rounds, T")
    eval_every: int = Field(10, ge=1, description="rounds between two looks at the test set")
    checkpoint_every: int = Field(5, ge=1, description="rounds between two checkpoints")
    workers: int = Field(2, ge=0, le=1024, description="processes that train clients; 0: this one, or all that Ray has")
    threads: int = Field(1, ge=1, le=1024, description="torch threads in each process")
    device: str = Field("cpu", min_length=1, description='"cpu", "cuda", "cuda:1"')
    loggers: list[Literal["dashboard", "tensorboard", "mlflow", "wandb"]] = Field(
        ["dashboard", "tensorboard"],
        description="programs for which the rounds are written: dashboard (the live page), tensorboard, mlflow, wandb",
    )
    out: str = Field("", description='the run\'s folder; "": a new one in runs/')


class DataSection(Section):
    SECTION: ClassVar[str] = "data"

    name: str = Field(
        "letters",
        description="data set: letters, table (drawn), text (carried), emnist-letters, mnist, fashion-mnist, cifar10, "
        "cifar100 (files), an installed name or package.module:loader",
    )
    root: str = Field("", description='where the files lie; "": the usual places')
    download: bool = Field(True, description="fetch what is missing")
    partition: Literal["iid", "dirichlet", "shards"] = Field(
        "dirichlet", description="how the training samples are divided among clients"
    )
    alpha: float = Field(0.3, gt=0, description="of the partition dirichlet: smaller is more uneven")
    shards_per_client: int = Field(2, ge=1, description="of the partition shards: classes that a client has, about")
    limit: int = Field(0, ge=0, description="training samples that are used; 0: all")
    test_limit: int = Field(0, ge=0, description="test samples that are used; 0: all")
    args: dict[str, Any] = Field(default_factory=dict, description="arguments of the loader, as a table")

    @field_validator("name")
    @classmethod
    def _is_registered(cls, name: str) -> str:
        return known_name(DATASETS, name)


class ModelSection(Section):
    SECTION: ClassVar[str] = "model"

    name: str = Field(
        "cnn",
        description="the network that is trained: cnn, resnet18, gru, char-transformer, mlp, an installed name or "
        "package.module:factory",
    )
    args: dict[str, Any] = Field(
        default_factory=dict, description="arguments of the factory, as a table: {width = 16} for resnet18"
    )

    @field_validator("name")
    @classmethod
    def _is_registered(cls, name: str) -> str:
        return known_name(MODELS, name)

    @model_validator(mode="before")
    @classmethod
    def _width_is_an_argument(cls, given: Any) -> Any:
        """Take the key `width` of older configs for `args.width`; the CNN, which has none, ignores it."""
        if not isinstance(given, dict) or "width" not in given:
            return given
        rest = {key: value for key, value in given.items() if key != "width"}
        if rest.get("name", "cnn") == "cnn":
            return rest
        return {**rest, "args": {**rest.get("args", {}), "width": given["width"]}}


class TaskSection(Section):
    SECTION: ClassVar[str] = "task"

    name: str = Field(
        "",
        description="what is learned: classification, regression, next-character, an installed name or "
        'package.module:Task; "": what the data is for',
    )
    args: dict[str, Any] = Field(default_factory=dict, description="arguments of the task, as a table")

    @field_validator("name")
    @classmethod
    def _is_registered(cls, name: str) -> str:
        return known_name(TASKS, name) if name else name


class SelectionSection(Section):
    SECTION: ClassVar[str] = "selection"

    policy: str = Field(
        "fair-k",
        description="fair-k, top-k, age-top-k, top-rand, round-robin, rand-k, dense, adaptive-k, an installed name or "
        "package.module:Policy",
    )
    rho: float | None = Field(None, gt=0, le=1, description="share of the entries sent in a round, k/d")
    k: int | None = Field(None, ge=1, description="entries sent in a round, instead of rho")
    k_m_ratio: float = Field(MAGNITUDE_SHARE, ge=0, le=1, description="k_M/k of fair-k, top-rand; adaptive-k's first")
    r_ratio: float = Field(CANDIDATE_RATIO, ge=1, description="r/k of age-top-k")
    args: dict[str, Any] = Field(default_factory=dict, description="arguments of a policy of your own, as a table")

    @field_validator("policy")
    @classmethod
    def _is_registered(cls, name: str) -> str:
        return known_name(POLICIES, name)

    @model_validator(mode="before")
    @classmethod
    def _rho_or_k(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if given.get("rho") is not None and given.get("k") is not None:
            raise ValueError(f"rho = {given['rho']} and k = {given['k']} say the same thing: give one of them")
        if given.get("rho") is None and given.get("k") is None:
            return {**given, "rho": PAPER_RHO}
        return given

    def entries(self, d: int) -> int:
        """k, for a model of d parameters."""
        if self.k is not None:
            if self.k > d:
                raise ConfigError(f"[selection] k = {self.k}: the model has only {d} parameters")
            return self.k
        assert self.rho is not None
        return max(1, round(self.rho * d))


class LinkSection(Section):
    """Deadlines, and how many clients make a round. It changes no result if all clients are there in time."""

    SECTION: ClassVar[str] = "link"

    bind: str = Field(
        f"tcp://127.0.0.1:{DEFAULT_PORT}",
        min_length=1,
        description="where the server listens: tcp://HOST:PORT, ipc://PATH",
    )
    min_clients: int = Field(
        1, ge=1, description="answers, and on radios clients heard, that a round needs to count, or it is repeated"
    )
    join_seconds: float = Field(60.0, gt=0, description="seconds for which the first round waits for all N clients")
    round_seconds: float = Field(60.0, gt=0, description="seconds until a round's deadline; later answers do not count")
    patience_seconds: float = Field(600.0, gt=0, description="seconds with fewer than min_clients before the run ends")
    heartbeat_seconds: float = Field(1.0, ge=0.01, le=60, description="seconds between two heartbeats of each side")
    silent_seconds: float = Field(10.0, gt=0, description="seconds of silence before a client is no longer waited for")
    cut_off_after: int = Field(5, ge=1, description="bad messages after which a sender is cut off")
    radio: str = Field("", description="the server's flowgraph, if votes go by radio: tcp://HOST:PORT, ipc://FOLDER")
    audit_votes: bool = Field(False, description="clients with radios also send their votes to the server")


class Settings(BaseModel):
    """All that decides a run's outcome, and where and how it is computed: one attribute for each section of a config.

    Examples
    --------
    >>> settings = oac.Settings()
    >>> settings.clients.n, settings.air.snr_db
    (2, 20.0)
    >>> settings.with_values(clients={"n": 50}).clients.n
    50
    >>> print(settings.toml()[:5])
    [run]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: RunSection = RunSection()
    engine: EngineSection = EngineSection()
    data: DataSection = DataSection()
    model: ModelSection = ModelSection()
    task: TaskSection = TaskSection()
    clients: ClientsSection = ClientsSection()
    server: ServerSection = ServerSection()
    selection: SelectionSection = SelectionSection()
    air: AirSettings = AirSettings()
    link: LinkSection = LinkSection()
    radios: RadiosSection = RadiosSection()

    @model_validator(mode="before")
    @classmethod
    def _one_rate(cls, given: Any) -> Any:
        return with_one_rate(given) if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _radios_are_there(self) -> Settings:
        n, rate = self.clients.n, self.air.sample_rate_hz
        fault = self.radios.fault(n, rate) if self.air.name == "pluto" else ""
        if fault:
            raise ValueError(f"[radios] {fault}")
        has_radios = self.has_flowgraphs or self.air.name == "gnuradio"
        if self.link.radio and not (has_radios and not self.air.scheme.coherent):
            raise ValueError(
                f"[link] radio = {self.link.radio!r}: radios need [air] mode = 'onebit' or 'energy', name = 'gnuradio' "
                f"or 'pluto' with [radios] transport = 'flowgraphs', not {self.air.mode!r} and {self.air.name!r}"
            )
        return self

    @model_validator(mode="after")
    def _training_fits(self) -> Settings:
        has_radios = self.air.name == "pluto" or bool(self.link.radio)
        least = self.link.min_clients if has_radios else 1  # without radios a round needs all that take part at most
        fault = training_fault(self.clients, self.server, self.run.rounds, self.air.scheme, least)
        if fault:
            raise ValueError(fault)
        return self

    @model_validator(mode="after")
    def _workers_have_the_device(self) -> Settings:
        has_gpu = self.run.device == "cpu" or self.engine.gpus_per_client > 0
        if self.engine.name == "ray" and not has_gpu:
            raise ValueError(
                f"[run] device = {self.run.device!r}: with [engine] name = 'ray', a worker sees only the GPUs that it "
                "asks for; set [engine] gpus_per_client above 0"
            )
        return self

    @property
    def has_flowgraphs(self) -> bool:
        """Does each radio of the bench have a GNU Radio flowgraph of its own?"""
        return self.air.name == "pluto" and self.radios.transport == "flowgraphs"

    def toml(self) -> str:
        """The settings in full, as a file that `load_settings` reads."""
        comments = {(name, key): text for name, part in self for key, text in type(part).comments().items()}
        return to_toml(self._plain(), comments)

    def _plain(self) -> dict[str, dict[str, Any]]:
        return {name: part.plain() for name, part in self}

    def headline(self) -> str:
        """The run in one line."""
        chosen, air = self.selection, self.air
        share = f"k = {chosen.k}" if chosen.k is not None else f"rho = {100 * (chosen.rho or 0):g} %"
        names = [
            name.removeprefix(OBJECT_PREFIX) for name in (self.data.name, self.model.name, chosen.policy, air.name)
        ]
        data, model, policy, carrier = names
        return (
            f"{data}, {model}, N = {self.clients.n}, {policy}, {share}, {carrier} air, {air.mode}, seed {self.run.seed}"
        )

    def with_values(self, **sections: dict[str, Any]) -> Settings:
        """A checked copy with some values changed: `settings.with_values(run={"seed": 2})`."""
        tree = self._plain()
        for section, values in sections.items():
            tree[section].update(with_own_keys(section, values))
        if RATE in tree["radios"]:  # the one rate, written as in --set radios.sample_rate_hz
            tree["air"][RATE] = tree["radios"].pop(RATE)
        return check(tree, "settings")

    def with_changes(self, changes: Mapping[str, str]) -> Settings:
        """A checked copy with changes as --set writes them, each with the words that an error names it by."""
        return _changed(self._plain(), changes, "settings")


def load_settings(
    config: str | Path | None = None, overrides: Sequence[str] = (), options: Mapping[str, str] | None = None
) -> Settings:
    """Return the settings of a TOML file, with overrides.

    Parameters
    ----------
    config
        A path, or the name of a config that comes with gr-oac; None is the quickstart.
    overrides
        Changed values, ``"section.key=value"``, the value as in TOML; strings may lack their quotes.
    options
        Further overrides, each with the words that an error names it by: ``{"air.name=ideal": "--air ideal"}``.

    Raises
    ------
    ConfigError
        If there is no such config, or if a key or value is wrong.

    Examples
    --------
    >>> settings = oac.load_settings("prototype", ["run.rounds=20", "selection.policy=top-k"])
    >>> settings.run.rounds, settings.selection.policy, settings.data.name
    (20, 'top-k', 'emnist-letters')
    """
    path = find_config(config)
    changes = {**{text: f"--set {text}" for text in overrides}, **(options or {})}
    return _changed(read_toml(path), changes, str(path))


def _changed(tree: dict[str, Any], changes: Mapping[str, str], name: str) -> Settings:
    """Settings from plain values and changes to them; an error names the change at fault, or else the values' name."""
    changed, places = copy.deepcopy(tree), {}
    for override, words in changes.items():
        places[_override(changed, override, words)] = words

    def source(place: tuple[str, ...]) -> str:
        if place in places:
            return places[place]
        near = [words for keys, words in places.items() if keys[: len(place)] == place[: len(keys)]]
        return " and ".join(near) if near and _is_valid(tree) else name

    return check(changed, source)


def with_own_keys(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of a section under the keys that the settings have: [air] scheme is another name of mode."""
    return {"mode" if (section, key) == ("air", "scheme") else key: value for key, value in values.items()}


def find_config(config: str | Path | None) -> Path:
    """The file meant by a path or by the name of a shipped config, "prototype" say."""
    if config is not None and Path(config).is_file():
        return Path(config)
    shipped = Path(str(resources.files("fl_app") / "configs"))
    name = QUICKSTART if config is None else str(config).removesuffix(".toml") + ".toml"
    if (shipped / name).is_file():
        return shipped / name
    names = sorted(file.stem for file in shipped.glob("*.toml"))
    raise ConfigError(f"there is no file {config}, and no config of that name: {nearest(str(config), names)}")


def _is_valid(tree: dict[str, Any]) -> bool:
    try:
        Settings.model_validate(tree)
    except ValidationError:
        return False
    return True


def _override(tree: dict[str, Any], text: str, words: str) -> tuple[str, ...]:
    """Change a value in place; returns the keys that lead to it."""
    path, equals, value = text.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or len(keys) < 2 or not all(keys):
        raise ConfigError(f"{words}: write section.key=value, for example run.rounds=20")
    if keys == ["selection", "rho"] or keys == ["selection", "k"]:  # one replaces the other
        for other in ("rho", "k"):
            tree.get("selection", {}).pop(other, None)
    if keys[0] in ("air", "radios") and keys[1:] == [RATE]:  # one rate, whichever section an option writes it in
        tree.get("radios", {}).pop(RATE, None)
        keys[0] = "air"
    if keys == ["air", "scheme"]:  # the other name of the same key
        keys[1] = "mode"
    branch = tree
    for key in keys[:-1]:
        branch = branch.setdefault(key, {})
        if not isinstance(branch, dict):
            raise ConfigError(f"{words}: {key} is a value, not a section")
    branch[keys[-1]] = parse_value(value.strip())
    return tuple(keys)


def check(tree: dict[str, Any], source: str | Callable[[tuple[str, ...]], str]) -> Settings:
    """Settings from plain values; `source` names them in an error, or says where the value at a place comes from."""
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        faults = []
        for fault in error.errors():
            place = tuple(str(key) for key in fault["loc"])
            origin = source if isinstance(source, str) else source(place)
            faults.append(f"{origin}: {explain(place, dict(fault), _keys())}")
        raise ConfigError("\n".join(faults)) from None


def _keys() -> dict[str, list[str]]:
    """Return the keys of each section."""
    kinds: dict[str, Any] = {name: field.annotation for name, field in Settings.model_fields.items()}
    return {name: list(kind.model_fields) for name, kind in kinds.items()}
