# SPDX-License-Identifier: GPL-3.0-or-later
"""Time Sionna's TDL-A channel in the frequency domain for an analog uplink; it uses no code of this project.

Arguments: clients, OFDM symbols, subcarriers, repetitions. The last line of the output is a JSON object of two lists of
seconds: with the channel of each symbol, as Sionna's ``OFDMChannel`` computes it, and with one channel for the burst.
There are no clocks, no timing, no pilots and no prefix. A client sends entries with the phase of its channel removed.
"""

import json
import sys
import time

import torch
from sionna.phy.channel import ApplyOFDMChannel, cir_to_ofdm_channel, subcarrier_frequencies
from sionna.phy.channel.tr38901 import TDL

SPACING_HZ = 20e6 / 256
SYMBOL_HZ = 20e6 / 320
CLIENTS_AT_ONCE = 2  # the channels of all clients at each symbol would take gigabytes


def uplink(entries: torch.Tensor, tdl: TDL, each_symbol: bool) -> torch.Tensor:
    """Return the sum of the clients' payloads (N, symbols, subcarriers) with noise."""
    n, symbols, subcarriers = entries.shape
    frequencies, apply = subcarrier_frequencies(subcarriers, SPACING_HZ), ApplyOFDMChannel()
    total = torch.zeros(symbols, subcarriers, dtype=torch.complex64)
    for start in range(0, n, CLIENTS_AT_ONCE):
        some = entries[start : start + CLIENTS_AT_ONCE]
        paths, delays = tdl(len(some), symbols if each_symbol else 1, SYMBOL_HZ)
        channel = cir_to_ofdm_channel(frequencies, paths, delays)
        sent = some[:, None, None] * (channel.conj() / channel.abs())[:, 0, 0]
        total += apply(sent, channel.expand(-1, -1, -1, -1, -1, symbols, -1))[:, 0, 0].sum(dim=0)
    return total + 0.1 * torch.randn(symbols, subcarriers, dtype=torch.complex64)


def main() -> None:
    n, symbols, subcarriers, repetitions = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    tdl = TDL("A", delay_spread=50e-9, carrier_frequency=2.4e9)
    entries = torch.randn(n, symbols, subcarriers, dtype=torch.complex64)
    seconds: dict[str, list[float]] = {"each symbol": [], "each burst": []}
    for name, taken in seconds.items():
        uplink(entries[:CLIENTS_AT_ONCE], tdl, name == "each symbol")
        for _ in range(repetitions):
            begin = time.process_time()
            uplink(entries, tdl, name == "each symbol")
            taken.append(time.process_time() - begin)
    print(json.dumps(seconds))


main()
