# SPDX-License-Identifier: GPL-3.0-or-later
"""Do a client's work: train its model on its data, or draw random votes to try a link."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fl_app.air.scales import reports
from fl_app.config import ConfigError, Settings, check
from fl_app.core.streams import stream
from fl_app.link.caller import Result, Welcome, Work
from fl_app.link.trust import check_trust
from oac_blocks.dsp.waveform.schemes import Scheme


class Trainer(Protocol):
    """Do the work of a client."""

    def prepare(self, welcome: Welcome) -> tuple[int, str]:
        """Prepare for the run that the server describes; return d, and the fingerprint of data and first weights."""
        ...

    def work(self, work: Work) -> Result:
        """Train one round, or measure the batch-norm statistics."""
        ...


def settings_of(welcome: Welcome, trusted: Collection[str]) -> Settings:
    """Return the server's settings, checked in the same way as those from a file, if this client may follow them."""
    try:
        tree = tomllib.loads(welcome.config)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"the server's config is not TOML: {error}") from None
    check_trust(tree, trusted)
    return check(tree, "the server's config")


def trained(welcome: Welcome, scheme: Scheme, payload: NDArray[Any] | None, loss: float, seconds: float) -> Result:
    """Make the answer to a training round; no payload means that the gradients were not finite.

    Entries that go by radio in a scaled scheme are reported by their RMS and peak: the server takes the scale of all
    clients from these reports.
    """
    body = {"loss": loss, "seconds": seconds, "sent": payload is not None}
    if payload is not None and welcome.payload_to != "server" and scheme.scaled:
        (rms,), (peak,) = reports(payload[None])
        body |= {"rms": float(rms), "peak": float(peak)}
    told = {"payload": payload} if payload is not None and welcome.payload_to != "radio" else {}
    return Result(body, told, payload if welcome.payload_to != "server" else None, scheme)


@dataclass(frozen=True, eq=False)
class _Kept:
    """Hold what a client had not sent before and after the last round that it trained."""

    round: int
    before: NDArray[np.float32] | None
    after: NDArray[np.float32]


@dataclass
class ModelTrainer:
    """Train as the clients of `fl_app train` do, in its own process. `local` overrides settings of this machine.

    With error feedback, the client itself keeps what it has not sent. A client that is started anew has lost it, and
    begins with nothing kept, unless the server tells it what it had in the checkpoint that the run goes on from.
    """

    client: int
    local: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    trusted: Collection[str] = ()  # import strings and packages that the server's config may name
    _group: Any = None
    _scheme: Any = None
    _welcome: Welcome | None = None
    _kept: _Kept | None = None

    def prepare(self, welcome: Welcome) -> tuple[int, str]:
        from fl_app.core.client import ClientGroup  # imports torch, slowly, in the thread that trains
        from fl_app.runs.prepare import prepare_client

        settings = settings_of(welcome, self.trusted).with_values(
            **{name: dict(values) for name, values in self.local.items()}
        )
        self._scheme = settings.air.scheme
        prepared = prepare_client(settings, self.client)
        self._group, self._welcome = ClientGroup(prepared.local, {self.client: prepared.samples}, {}), welcome
        self._kept = None
        return prepared.d, prepared.fingerprint

    def work(self, work: Work) -> Result:
        from fl_app.core.client import Broadcast

        assert self._welcome is not None
        if work.kind == "train":
            before = self._residual_before(work)
            residuals = {} if before is None else {self.client: before}
            (report,) = self._group.train(Broadcast(work.round, work.w, work.selected, residuals))
            self._kept = None if report.residual is None else _Kept(work.round, before, report.residual)
            return trained(self._welcome, self._scheme, report.payload, report.loss, report.seconds)
        if work.kind == "residual":
            kept = np.zeros_like(work.w) if self._kept is None else self._kept.after
            return Result({"seconds": 0.0}, {"residual": kept})
        started = time.perf_counter()
        ((_, buffers),) = self._group.measure(work.round, work.w)
        return Result({"seconds": time.perf_counter() - started}, buffers)

    def _residual_before(self, work: Work) -> NDArray[np.float32] | None:
        """Return what this client had not sent before a round, which the server may ask for a second time."""
        if work.residual is not None or self._kept is None:
            return work.residual
        return self._kept.before if self._kept.round == work.round else self._kept.after


@dataclass
class RandomVoter:
    """Draw votes instead of training, from a stream named by seed, round and client, to try a link.

    `before` is called with the round before each answer.
    """

    client: int
    before: Callable[[int], None] = lambda _round: None
    trusted: Collection[str] = ()
    _settings: Settings | None = None
    _welcome: Welcome | None = None

    def prepare(self, welcome: Welcome) -> tuple[int, str]:
        self._settings, self._welcome = settings_of(welcome, self.trusted), welcome
        if self._settings.model.name != "cnn":
            raise ConfigError("a client without training cannot measure batch norm: it needs [model] name = 'cnn'")
        if self._settings.clients.error_feedback:
            raise ConfigError(
                "a client without training has no gradients to keep: set [clients] error_feedback = false"
            )
        return welcome.d, welcome.fingerprint

    def work(self, work: Work) -> Result:
        assert self._settings is not None
        assert self._welcome is not None
        assert work.kind == "train", "the CNN has no statistics to measure"
        self.before(work.round)
        rng = stream(self._settings.run.seed, "random votes", work.round, self.client)
        scheme = self._settings.air.scheme
        return trained(self._welcome, scheme, scheme.random_payload(work.selected.size, rng), 0.0, 0.0)
