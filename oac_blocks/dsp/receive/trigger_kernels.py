# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiled loops of the trigger search: the gate over all samples of a span, and the whole waveform where it opens.

Complex samples come as float32 pairs of real and imaginary part. Lengths are constants where they can be: from a
variable the compiler makes fewer vector instructions, and the loops take up to ten times as long.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from oac_blocks.dsp.compiled import stream_kernel
from oac_blocks.dsp.receive.trigger_bank import FFT_SIZE, ROW_SAMPLES
from oac_blocks.dsp.waveform.trigger import SEGMENT_SAMPLES, SEGMENTS

Floats = NDArray[np.float32]


@stream_kernel("int64(float32[::1], float32, float32, float32, float32[::1], float32[:,::1])")
def prepare(x: Floats, largest: float, share: float, least: float, norm: Floats, rows: Floats) -> int:
    """Cut pairs into the overlapping rows that the FFT needs, and write what normalises a correlation at each sample.

    This is 1 over the number of segments and over the root of the energy of a segment there. An energy counts as at
    least `least`, and as at least a share of the largest. Samples whose power is not below `largest` become zero; the
    function returns how many these are.
    """
    bad, sound = 0, True
    for i in range(norm.size):
        norm[i] = x[2 * i] * x[2 * i] + x[2 * i + 1] * x[2 * i + 1]
        sound &= norm[i] < largest
    if not sound:
        for i in range(norm.size):
            if not norm[i] < largest:
                x[2 * i] = x[2 * i + 1] = norm[i] = np.float32(0)
                bad += 1
    # Sums of 2, 4, 8 ... neighbours are as fast as a running sum, without a difference of large numbers.
    count, step = norm.size, 1
    while step < SEGMENT_SAMPLES:
        count -= step
        for i in range(count):
            norm[i] += norm[i + step]
        step *= 2
    top = np.float32(0)
    for i in range(count):
        top = max(top, norm[i])
    floor = max(top * share, least)
    for i in range(count):
        norm[i] = np.float32(1 / SEGMENTS) / math.sqrt(max(norm[i], floor))
    for row in range(rows.shape[0]):
        for i in range(2 * FFT_SIZE):
            rows[row, i] = x[2 * ROW_SAMPLES * row + i]
    return bad


@stream_kernel("void(float32[:,::1], float32[::1], float32[:,::1])")
def filtered(spectra: Floats, spectrum: Floats, out: Floats) -> None:
    """Write the product of each row with one spectrum."""
    for row in range(spectra.shape[0]):
        for i in range(FFT_SIZE):
            a, b, c, d = spectra[row, 2 * i], spectra[row, 2 * i + 1], spectrum[2 * i], spectrum[2 * i + 1]
            out[row, 2 * i] = a * c - b * d
            out[row, 2 * i + 1] = a * d + b * c


@stream_kernel(
    "int64(float32[:,::1], float32[::1], float32[::1], int32, float32[::1], int32[::1], float32, int64[::1])"
)
def add_gates(
    rows: Floats,
    norm: Floats,
    single: Floats,
    number: int,
    gates: Floats,
    best: NDArray[np.int32],
    limit: float,
    opened: NDArray[np.int64],
) -> int:
    """Compare the mean correlation of four segments at one frequency with the best so far, and keep the better one.

    `rows` holds the correlations with one segment. `gates` is the best mean at each sample, and `best` the number of
    its frequency; the number 0 comes first. `opened` receives the samples at which the best mean exceeds the limit; the
    function returns how many these are. `single` is memory to work in.
    """
    for row in range(rows.shape[0]):
        first = ROW_SAMPLES * row
        for i in range(ROW_SAMPLES):
            power = rows[row, 2 * i] * rows[row, 2 * i] + rows[row, 2 * i + 1] * rows[row, 2 * i + 1]
            single[first + i] = math.sqrt(power) * norm[first + i]
    if number == 0:
        gates[:] = np.float32(-1)
        best[:] = np.int32(0)
    for i in range(gates.size):
        mean = (single[i] + single[i + SEGMENT_SAMPLES]) + (
            single[i + 2 * SEGMENT_SAMPLES] + single[i + 3 * SEGMENT_SAMPLES]
        )
        best[i] = number if mean > gates[i] else best[i]
        gates[i] = max(gates[i], mean)
    found = 0
    for i in range(gates.size):
        if gates[i] > limit:
            opened[found] = i
            found += 1
    return found


@stream_kernel(
    "int64(complex64[::1], int64[::1], int32[::1], complex64[:,:,::1], complex64[:,::1], float32, float32[::1],"
    " int64[:,::1])"
)
def whole_waveforms(
    x: NDArray[np.complex64],
    places: NDArray[np.int64],
    frequency: NDArray[np.int32],
    templates: NDArray[np.complex64],
    steering: NDArray[np.complex64],
    least: float,
    strength: Floats,
    found: NDArray[np.int64],
) -> int:
    """Correlate the whole waveform at these places, and keep where its share of the energy exceeds the least; how many?

    `frequency` is the number of a place's coarse frequency. A row of `templates` is the waveform, conjugate and of unit
    energy, for each frequency and shift. Its pieces are added up for each fine frequency with a column of `steering`.
    `strength` receives the share, and a row of `found` the number of the place, of the shift and of the fine frequency.
    """
    shifts, length = templates.shape[1], templates.shape[2]
    parts, fines = steering.shape
    piece = length // parts
    sums = np.empty(parts, np.complex64)
    count = 0
    for number in range(places.size):
        begin = places[number]
        energy = np.float32(0)
        for i in range(length):
            energy += x[begin + i].real * x[begin + i].real + x[begin + i].imag * x[begin + i].imag
        best, best_shift, best_fine = np.float32(-1), 0, 0
        for shift in range(shifts):
            template = templates[frequency[number], shift]
            for part in range(parts):
                total = np.complex64(0)
                for i in range(part * piece, (part + 1) * piece):
                    total += x[begin + i] * template[i]
                sums[part] = total
            for fine in range(fines):
                response = np.complex64(0)
                for part in range(parts):
                    response += sums[part] * steering[part, fine]
                power = response.real * response.real + response.imag * response.imag
                if power > best:
                    best, best_shift, best_fine = power, shift, fine
        share = best / max(energy, np.float32(1.2e-38))
        if share > least:
            strength[count] = share
            found[count, 0], found[count, 1], found[count, 2] = number, best_shift, best_fine
            count += 1
    return count
