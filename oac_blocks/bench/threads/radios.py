# SPDX-License-Identifier: GPL-3.0-or-later
"""From uris to a bench of radios, and from a bench to clients that are aligned. Nothing is opened on import."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from oac_blocks.bench.config import RadiosSection
from oac_blocks.bench.settings import CRYSTAL_PPM, RADIO_RATE_HZ, RX_GAIN_DB, TX_GAIN_DB
from oac_blocks.bench.threads.bench import Bench, BenchSettings, RoundOutcome, loop_settings
from oac_blocks.bench.threads.plan import CLOCKS, Clock, settings_for
from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.loop.closed_loop import Guess, Loop
from oac_blocks.radio import registry
from oac_blocks.radio.base import Radio, RadioConfig, RadioError, RadioInfo
from oac_blocks.record.recorder import Recorder

HOLD_ROUNDS = 3  # payload rounds inside the tolerance, one after the other
_PATIENCE_SECONDS = {"wall": 30.0, "lock-step": 600.0}  # in lock-step a radio waits for all others


@dataclass(frozen=True)
class RadioPlan:
    """Checked before any radio is touched. All radios send and receive at ``frequency_hz``."""

    server: str
    clients: tuple[str, ...]
    frequency_hz: float | None
    sample_rate_hz: float = RADIO_RATE_HZ
    rx_gain_db: float = RX_GAIN_DB
    tx_gain_db: float = TX_GAIN_DB
    clock: Clock = "wall"
    crystal_ppm: float = CRYSTAL_PPM

    @classmethod
    def of(cls, radios: RadiosSection, sample_rate_hz: float) -> RadioPlan:
        """Return the plan that a config asks for."""
        return cls(
            radios.server,
            tuple(radios.clients),
            radios.frequency_hz or None,
            sample_rate_hz,
            radios.rx_gain_db,
            radios.tx_gain_db,
            radios.clock,
            radios.crystal_ppm,
        )

    def __post_init__(self) -> None:
        require(bool(self.server), "server", repr(self.server), "the uri of a radio, as in ip:192.168.2.1")
        require(len(self.clients) > 0, "clients", "no uri", "one uri for each client")
        require(all(self.clients), "clients", list(self.clients), "uris, none of them empty")
        uris = [self.server, *self.clients]
        twice = sorted({uri for uri in uris if uris.count(uri) > 1})
        require(not twice, "uris", f"{twice[0] if twice else ''} twice", "a radio of its own for each")
        require(self.clock in CLOCKS, "clock", repr(self.clock), f"one of {', '.join(CLOCKS)}")
        named = "named: nothing is transmitted until you name a frequency that you may use"
        require(self.frequency_hz is not None, "frequency", "none", named)
        for uri in uris:
            registry.check_config(uri, self.config())

    @property
    def carrier_hz(self) -> float:
        assert self.frequency_hz is not None
        return self.frequency_hz

    def config(self) -> RadioConfig:
        rate, gain = real("sample_rate_hz", self.sample_rate_hz, 0.0, open_low=True), self.tx_gain_db
        frequency = real("frequency", self.carrier_hz, 0.0, open_low=True)
        return RadioConfig(rate, frequency, frequency, self.rx_gain_db, gain)

    def bench_settings(self, num: Numerology | None = None, **more: Any) -> BenchSettings:
        num = Numerology(sample_rate_hz=self.sample_rate_hz) if num is None else num
        return settings_for(len(self.clients), num, self.clock, self.carrier_hz, crystal_ppm=self.crystal_ppm, **more)

    def probe(self) -> tuple[RadioInfo, ...]:
        """The server's and the clients', in their order. RadioError says who is not there."""
        found = tuple(registry.probe(uri) for uri in (self.server, *self.clients))
        serials = [info.serial for info in found if info.serial]
        for info in found:
            if info.serial and serials.count(info.serial) > 1:
                raise RadioError(f"{info.uri} is the same radio as another one, by its serial number {info.serial}")
        return found

    def bench(self, settings: BenchSettings, loop: Loop | None = None, recorder: Recorder | None = None) -> Bench:
        openers = [_Opener(uri, self.config(), _PATIENCE_SECONDS[self.clock]) for uri in (self.server, *self.clients)]
        return Bench(openers[0], openers[1:], settings, loop, recorder)

    def loop(self, settings: BenchSettings, tolerance: float, guesses: Mapping[int, Guess] | None = None) -> Loop:
        return Loop(len(self.clients), loop_settings(settings, tolerance), guesses)


class _Opener:
    """Opens a radio, again and again if it was lost; it is left in the state that it was first found in."""

    def __init__(self, uri: str, config: RadioConfig, timeout_seconds: float) -> None:
        self._uri, self._config, self._timeout_seconds = uri, config, timeout_seconds
        self._found: Any = None

    def __call__(self) -> Radio:
        radio = registry.open_radio(self._uri, self._config, timeout_seconds=self._timeout_seconds, found=self._found)
        self._found = radio.found
        return radio


@dataclass(frozen=True)
class Alignment:
    """``met``: all clients tracking, and inside the tolerance in the last payload rounds."""

    met: bool
    rounds: int
    last: RoundOutcome
    tolerance_samples: float
    offset_rms_samples: float  # as measured, in those rounds; NaN if there were none
    offset_max_samples: float

    @property
    def only_scattered(self) -> bool:
        """Is every client tracking, and not one unheard? Then a larger tolerance would have been met."""
        return not self.met and self.last.all_tracking

    def reason(self, names: tuple[str, ...]) -> str:
        """Why it was not met, client by client."""
        told = []
        for name, view, gone, state in zip(names, self.last.views, self.last.absent, self.last.states, strict=True):
            if state != "tracking":
                told.append(f"{name} is {state}: {gone or view.reason}")
            elif not abs(view.offset_samples) <= self.tolerance_samples:
                told.append(f"{name} is {view.offset_samples:+.2f} samples off")
        return "; ".join(told) or f"all are tracking, but not for {HOLD_ROUNDS} payload rounds in a row"


def align(
    bench: Bench,
    tolerance_samples: float,
    most_rounds: int,
    each: Callable[[RoundOutcome], None] = lambda _: None,
) -> Alignment:
    """Rounds without votes until all clients have been inside the tolerance for some, or there are too many.

    The first payload round of a client does not count: in it the loop learns what a frame needs beside a sequence.
    """
    integer("rounds", most_rounds, 1)
    held: list[np.ndarray] = []
    rounds, settled = 0, False
    while rounds < most_rounds and len(held) < HOLD_ROUNDS:
        rounds += 1
        outcome = bench.play()
        each(outcome)
        offsets = outcome.offset_samples
        inside = bool(np.all(np.abs(offsets) <= tolerance_samples))  # NaN is not
        payload = outcome.kind == "payload" and outcome.all_tracking
        if not (payload and settled and inside):
            held.clear()
        else:
            held.append(offsets)
        settled = payload
    kept = np.concatenate(held) if held else np.empty(0)
    rms = float(np.sqrt(np.mean(kept**2))) if kept.size else math.nan
    largest = float(np.max(np.abs(kept))) if kept.size else math.nan
    return Alignment(len(held) == HOLD_ROUNDS, rounds, outcome, tolerance_samples, rms, largest)
