# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of the shared air: its channel and noise, and each radio's errors of clock, carrier and timing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from oac_blocks.dsp.channel.crystal import CrystalSettings
from oac_blocks.dsp.channel.fading import FADINGS, PROFILES
from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.radio.ad9361 import CHIPS

CHANNELS = ("none", *PROFILES)
MOST_RADIOS = 64
# ``snr_db`` refers to a signal of this RMS (full scale is 0 dB) at the gain that a transmitter starts with.
REFERENCE_RMS_DB, REFERENCE_TX_GAIN_DB = -12.0, -10.0
REFERENCE_BANDWIDTH_HZ = 2.5e6  # bandwidth of the receiver that ``snr_db`` refers to: the bench's usual sample rate
# A Pluto at 2.4 GHz: full scale at an RX gain of 0 dB is a signal of 5.5 dBm. Full scale at a TX gain of 0 dB, 7 dBm,
# is 1.5 dB above it through a cable. The receiver's noise figure is 3 dB at its highest gains.
FULL_SCALE_DBM, NOISE_FIGURE_DB = 5.5, 3.0
CABLE_DB = -1.5  # ``path_loss_db`` of a cable without any loss
THERMAL_DBM_PER_HZ = 10 * math.log10(1e3 * 1.380649e-23 * 290)
_LIGHT_METRES_PER_SECOND = 299_792_458.0


@dataclass(frozen=True)
class VirtualAirSettings:
    """The settings of an air with one radio for each crystal.

    With the defaults the samples of one radio arrive at the others unchanged, if TX gain + RX gain is ``path_loss_db``.

    ``leakage_db`` is the level at which a radio hears itself, relative to that of others; with None it does not.

    Noise is white, and its power follows the receiver's bandwidth: the smaller one of its sample rate and its RF
    bandwidth. ``noise_figure_db`` is that of a receiver at 290 K with the levels of a Pluto. ``snr_db`` sets the noise
    by what it does to a signal of ``REFERENCE_RMS_DB`` at ``REFERENCE_TX_GAIN_DB`` where the receiver's bandwidth is
    ``snr_bandwidth_hz``. Both add up; None, the default of both, is exactly no noise.
    """

    crystals: tuple[CrystalSettings, ...] = (CrystalSettings(),)
    lo_ppm: tuple[float, ...] | None = None  # errors of the oscillators in addition to those of the crystals
    delay_seconds: tuple[tuple[float, ...], ...] | None = None  # [from][to]
    tx_start_samples: tuple[int, ...] | None = (
        None  # sample of a radio's time at which its transmit stream begins (lock-step)
    )
    path_loss_db: float = 40.0
    leakage_db: float | None = None
    snr_db: float | None = None
    channel: str = "none"
    fading: str = "rician"
    rician_k_db: float = 10.0
    coherence_seconds: float = 0.0  # time from one draw of the fading to the next, linear in between; 0: it stays
    seed: int = 1
    snr_bandwidth_hz: float = REFERENCE_BANDWIDTH_HZ
    noise_figure_db: float | None = None
    chip: str = "ad9364"  # the chip that the radios report, one of ``ad9361.CHIPS``

    def __post_init__(self) -> None:
        n = integer("number of radios", len(self.crystals), 1, MOST_RADIOS)
        for name, values in (("lo_ppm", self.lo_ppm), ("delay_seconds", self.delay_seconds)):
            fits = values is None or len(values) == n
            require(fits, name, f"{len(values or ())} values", f"one for each of {n} radios")
        for row in self.delay_seconds or ():
            require(len(row) == n, "delay_seconds", f"a row of {len(row)}", f"rows of {n}")
            for delay in row:
                real("delay_seconds", delay, 0.0, 1e-3)
        for start in self.tx_start_samples or ():
            integer("tx_start_samples", start, 0, 1 << 24)
        real("path_loss_db", self.path_loss_db, -60.0, 200.0)
        if self.leakage_db is not None:
            real("leakage_db", self.leakage_db, -200.0, 100.0)
        if self.snr_db is not None:
            real("snr_db", self.snr_db, -100.0, 200.0)
        real("snr_bandwidth_hz", self.snr_bandwidth_hz, 1.0, 1e9)
        if self.noise_figure_db is not None:
            real("noise_figure_db", self.noise_figure_db, 0.0, 100.0)
        require(self.chip in CHIPS, "chip", repr(self.chip), f"one of {', '.join(CHIPS)}")
        require(self.channel in CHANNELS, "channel", repr(self.channel), f"one of {', '.join(CHANNELS)}")
        require(self.fading in FADINGS, "fading", repr(self.fading), f"one of {', '.join(FADINGS)}")
        real("rician_k_db", self.rician_k_db, -60.0, 60.0)
        real("coherence_seconds", self.coherence_seconds, 0.0)
        integer("seed", self.seed, 0)

    @property
    def radios(self) -> int:
        return len(self.crystals)

    def branch(self, what: Literal["crystal", "noise", "fading", "sight"], *which: int) -> np.random.SeedSequence:
        """Return the seed of one random quantity; it does not depend on what else is drawn."""
        return np.random.SeedSequence(
            self.seed, spawn_key=(("crystal", "noise", "fading", "sight").index(what), *which)
        )

    def delay(self, sender: int, receiver: int) -> float:
        return self.delay_seconds[sender][receiver] if self.delay_seconds else 0.0

    def lo_error(self, radio: int) -> float:
        return self.lo_ppm[radio] if self.lo_ppm else 0.0

    def tx_start(self, radio: int) -> int:
        return self.tx_start_samples[radio] if self.tx_start_samples else 0

    def noise_density(self) -> float:
        """Return the noise power at the antenna in one Hz of the receiver's band; full scale at a gain of 0 dB is 1."""
        density = 0.0
        if self.snr_db is not None:
            db = REFERENCE_RMS_DB + REFERENCE_TX_GAIN_DB - self.path_loss_db - self.snr_db
            density += 10 ** (db / 10) / self.snr_bandwidth_hz
        if self.noise_figure_db is not None:
            density += 10 ** ((THERMAL_DBM_PER_HZ + self.noise_figure_db - FULL_SCALE_DBM) / 10)
        return density


def spread(
    radios: int,
    seed: int,
    *,
    ppm: float = 20.0,
    walk_ppm: float = 0.0,
    wobble_ppm: float = 0.0,
    lo_ppm: float = 0.0,
    largest_pipeline_seconds: float = 10e-6,
    largest_distance_metres: float = 3.0,
    largest_start_samples: int = 2000,
    path_loss_db: float = 40.0,
    leakage_db: float | None = 0.0,
    snr_db: float | None = None,
    channel: str = "none",
    fading: str = "rician",
    coherence_seconds: float = 0.0,
    snr_bandwidth_hz: float = REFERENCE_BANDWIDTH_HZ,
    noise_figure_db: float | None = None,
    chip: str = "ad9364",
) -> VirtualAirSettings:
    """Return the settings of radios that differ as real ones do.

    The first crystal has no error, and those of the others go from +ppm to -ppm. The errors of the oscillators go from
    +lo_ppm to -lo_ppm in the same way, and add to those of the crystals.
    """
    n = integer("radios", radios, 1, MOST_RADIOS)
    rng = np.random.default_rng(np.random.SeedSequence(integer("seed", seed, 0), spawn_key=(99,)))
    shares = [0.0, *np.linspace(1.0, -1.0, n - 1).tolist()] if n > 2 else [0.0, 1.0][:n]
    turns = rng.random(n)
    crystals = tuple(
        CrystalSettings(ppm * share, walk_ppm, wobble_ppm if i else 0.0, wobble_turns=float(turns[i]))
        for i, share in enumerate(shares)
    )
    pipelines = largest_pipeline_seconds * rng.random((2, n))
    seats = largest_distance_metres / 2**0.5 * rng.random((n, 2))
    delays = tuple(
        tuple(
            float(pipelines[0, i] + pipelines[1, j] + np.hypot(*(seats[i] - seats[j])) / _LIGHT_METRES_PER_SECOND)
            for j in range(n)
        )
        for i in range(n)
    )
    lo_errors = tuple(lo_ppm * share for share in shares)
    starts = tuple(int(s) for s in rng.integers(0, largest_start_samples + 1, n))
    return VirtualAirSettings(
        crystals, lo_errors, delays, starts, path_loss_db, leakage_db, snr_db, channel, fading,
        coherence_seconds=coherence_seconds, seed=seed, snr_bandwidth_hz=snr_bandwidth_hz,
        noise_figure_db=noise_figure_db, chip=chip,
    )  # fmt: skip
