# SPDX-License-Identifier: GPL-3.0-or-later
"""A bench over virtual Plutos, with the air's own truth beside what the loop believes."""

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from oac_blocks.bench.threads.bench import Bench, BenchSettings
from oac_blocks.radio.base import RadioConfig
from oac_blocks.radio.virtual.air.air_settings import spread
from oac_blocks.radio.virtual.faults import parse_fault
from oac_blocks.radio.virtual.server import VirtualPlutos

CONFIG = RadioConfig(2.5e6, 2.4e9, 2.4e9, rx_gain_db=50, tx_gain_db=-10)


@dataclass
class RoundLog:
    round: int
    kind: str
    states: list[str]  # after the round
    offsets: list[float]  # as measured
    residuals: list[float]  # the truth, NaN for a client that did not answer
    corrections: list[float]
    seconds: float = field(default=0.0, repr=False)  # of the air, about


@contextmanager
def bench_on_air(clients=2, faults=(), settings=None, loop=None, recorder=None, **air):
    """Clocks of +-20 ppm with a wobble of 1 ppm, 17 dB of SNR a sample, unknown stream starts and delays."""
    from oac_blocks.radio.pluto import PlutoRadio

    options = {"ppm": 20, "wobble_ppm": 1, "snr_db": 26, "seed": 1} | air
    seed = options.pop("seed")
    schedule = [parse_fault(line, clients + 1) for line in faults]
    settings = settings or BenchSettings(clients)
    with VirtualPlutos(spread(clients + 1, seed, **options), lock_step=True, faults=schedule) as served:
        openers = [partial(PlutoRadio, uri, CONFIG, timeout_seconds=120) for uri in served.uris]
        with Bench(openers[0], openers[1:], settings, loop, recorder) as bench:
            yield bench, served


def run(rounds, clients=2, faults=(), settings=None, until=lambda _: False, **air):
    """At most so many rounds, of random votes."""
    rng = np.random.default_rng(5)
    with bench_on_air(clients, faults, settings, **air) as (bench, served):
        log = []
        for _ in range(rounds):
            votes = rng.choice(np.array([-1, 1], np.int8), (clients, bench.settings.votes))
            log.append(logged(bench, served.air, bench.play(votes)))
            if until(log):
                break
        return log


def logged(bench, air, outcome):
    return RoundLog(
        outcome.round,
        outcome.kind,
        outcome.states,
        outcome.arrivals.offset_samples.tolist(),
        [residual(bench, air, outcome, n) for n in range(len(bench.nodes))],
        [order.correction_samples for order in outcome.plan.orders],
        air.now,
    )


def residual(bench, air, outcome, client):
    """Where the answer truly arrived less where it was wanted, in the mean over the frame's sync symbols.

    With echoes that is the mean of their delays, each with its energy at that moment. NaN if the client did not answer,
    or if its radio or the server's is gone since then.
    """
    status = outcome.answers[client]
    if status is None:
        return float("nan")
    layout, stream = bench.settings.layout, bench.settings.stream
    (ears, trigger), (_, sent) = air.streams(0), air.streams(1 + client)
    middle = layout.num.cp_samples + layout.num.fft_size / 2  # of a symbol: a clock that is off moves through it
    starts = np.array([middle])
    if status.sent != "acquire":
        starts = middle + layout.frame(bench.settings.votes).sync_starts_samples()
    wanted = air.arrival(0, trigger, outcome.trigger_at, 0, ears) + layout.answer_samples
    primed = stream.primed_blocks * stream.block_samples - bench.nodes[client].begun_at
    slot = layout.sequence_start_samples(client) if status.sent == "acquire" else 0
    # A sequence is wanted at its slot.
    arrivals = []
    for s in starts:
        way = (1 + client, sent, primed + status.answer_sample + s, 0)
        late = air.paths(*way).centroid_seconds * layout.num.sample_rate_hz
        arrivals.append(air.arrival(*way, ears) + late - s)
    return float(np.mean(arrivals)) - wanted - slot
