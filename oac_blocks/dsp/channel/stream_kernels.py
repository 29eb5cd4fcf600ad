# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiled loops of the streaming channel: receiver noise, multipath and the carrier's rotation.

Complex samples come as float32 pairs of real and imaginary part, and as complex64 where a loop is short. Loops run over
tiles, whose arrays stay in the fastest cache, and over slices: with an index that begins anywhere the compiler makes no
vector instructions. Sine, cosine and logarithm are polynomials, because the compiler makes
vector instructions of these and none of the functions of the library; their relative error is that of float32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oac_blocks.dsp.compiled import stream_kernel

Floats = NDArray[np.float32]

_TILE = 1024  # samples in a tile
_U, _F = np.uint64, np.float32  # numba makes float64 of what has no type
_STEP = _F(2 * math.pi / 65536)  # radians between two of the 65,536 directions
_HALF_ROOT = _F(math.sqrt(0.5))


@stream_kernel("void(uint64[::1], uint64[::1])")
def draw_words(state: NDArray[np.uint64], words: NDArray[np.uint64]) -> None:
    """Write the next random words of the generator SFC64, as numpy draws them, and update its state."""
    a, b, c, count = state[0], state[1], state[2], state[3]
    for i in range(words.size):
        word = a + b + count
        count += _U(1)
        a = b ^ (b >> _U(11))
        b = c + (c << _U(3))
        c = ((c << _U(24)) | (c >> _U(40))) + word
        words[i] = word
    state[0], state[1], state[2], state[3] = a, b, c, count


@stream_kernel("void(float32[::1], uint64[::1], float32)")
def add_gaussian(x: Floats, state: NDArray[np.uint64], power: Any) -> None:
    """Add circular Gaussian noise of this power to pairs: a word's low 32 bits give the radius, 16 more the angle."""
    words = np.empty(_TILE, np.uint64)
    halves = words.view(np.uint32)
    radius = np.empty(_TILE, np.float32)
    bits = radius.view(np.int32)
    exponent, along, across = np.empty(_TILE, np.float32), np.empty(_TILE, np.float32), np.empty(_TILE, np.float32)
    for first in range(0, x.size // 2, _TILE):
        count = min(_TILE, x.size // 2 - first)
        draw_words(state, words[:count])
        for i in range(count):
            # The logarithm of 0 is undefined.
            radius[i] = _F(halves[2 * i]) * _F(2**-32) + _F(2**-33)
        for i in range(count):
            # A float is 2^exponent times a mantissa, of which the logarithm is taken between 1 / sqrt(2) and sqrt(2).
            shifted = bits[i] - np.int32(0x3F3504F3)
            exponent[i] = _F(shifted >> np.int32(23))
            bits[i] = (shifted & np.int32(0x007FFFFF)) + np.int32(0x3F3504F3)
        for i in range(count):
            m = radius[i] - _F(1)
            series = _F(7.0376836292e-2) * m - _F(1.1514610310e-1)
            series = series * m + _F(1.1676998740e-1)
            series = series * m - _F(1.2420140846e-1)
            series = series * m + _F(1.4249322787e-1)
            series = series * m - _F(1.6668057665e-1)
            series = series * m + _F(2.0000714765e-1)
            series = series * m - _F(2.4999993993e-1)
            series = series * m + _F(3.3333331174e-1)
            logarithm = series * m * m * m - _F(0.5) * m * m + m + _F(math.log(2)) * exponent[i]
            radius[i] = math.sqrt(max(-power * logarithm, _F(0)))
        for i in range(count):
            direction = np.int32(halves[2 * i + 1] & np.uint32(0xFFFF))
            quadrant = direction >> np.int32(14)
            angle = _STEP * _F((direction & np.int32(16383)) - np.int32(8192))
            square = angle * angle
            series = _F(-1.9515295891e-4) * square + _F(8.3321608736e-3)
            sine = angle + angle * square * (series * square - _F(1.6666654611e-1))
            series = _F(2.443315711809948e-5) * square - _F(1.388731625493765e-3)
            cosine = _F(1) - _F(0.5) * square + square * square * (series * square + _F(4.166664568298827e-2))
            scale = radius[i] * _HALF_ROOT
            # The angle is an eighth of a turn further.
            near, far = scale * (cosine - sine), scale * (cosine + sine)
            sign, odd = _F(1) - _F(quadrant & np.int32(2)), _F(quadrant & np.int32(1))
            even = _F(1) - odd
            along[i] = sign * (even * near - odd * far)
            across[i] = sign * (even * far + odd * near)
        for i in range(count):
            x[2 * (first + i)] += along[i]
            x[2 * (first + i) + 1] += across[i]


@stream_kernel("int64(float32[::1], int64, int64, float32, boolean[::1])")
def find_loud(buffer: Floats, begin: int, end: int, limit: Any, loud: NDArray[np.bool_]) -> int:
    """Mark the cells with the pairs from `begin` to `end` that hold anything but zeros.

    The buffer has as many cells as `loud`. A pair with a part that is not below the limit becomes zero. Returns how
    many these are.
    """
    bad, cell = 0, buffer.size // loud.size
    for number in range(2 * begin // cell, -(-2 * end // cell)):
        parts = buffer[cell * number : cell * (number + 1)]
        anything, sound = False, True
        for i in range(parts.size):
            anything |= parts[i] != _F(0)
            sound &= (parts[i] < limit) & (parts[i] > -limit)
        if not sound:
            anything = False
            for i in range(0, parts.size, 2):
                re, im = parts[i], parts[i + 1]
                if not ((re < limit) & (re > -limit) & (im < limit) & (im > -limit)):
                    parts[i] = parts[i + 1] = _F(0)
                    bad += 1
                anything |= (parts[i] != _F(0)) | (parts[i + 1] != _F(0))
        loud[number] = anything
    return bad


@stream_kernel("void(float32[::1], float32[::1], complex64[::1], int64[::1], float32[::1], complex64[::1], int64)")
def add_echoes(
    out: Floats,
    heard: Floats,
    taps: NDArray[np.complex64],
    delays: NDArray[np.int64],
    turn: Floats,
    phases: NDArray[np.complex64],
    first: int,
) -> None:
    """Add the echoes of pairs to `out`, turned by the carrier.

    `out` begins at the sample `first` of a block, and its samples are the last ones of `heard`: those before are the
    past, from which echoes come. In each block the carrier turns by `turn`, and by one of `phases` for the block; no
    phases stand for a carrier that does not turn.
    """
    count, past = out.size, heard.size - out.size
    block = turn.size
    echoes = np.empty(block, np.float32)
    number, begin = 0, 0
    while begin < count:
        offset = 2 * first if number == 0 else 0
        size = min(block - offset, count - begin)
        echoes[:size] = _F(0)
        for echo in range(taps.size):
            re, im = taps[echo].real, taps[echo].imag
            earlier = heard[past + begin - 2 * delays[echo] :]
            for i in range(size // 2):
                a, b = earlier[2 * i], earlier[2 * i + 1]
                echoes[2 * i] += a * re - b * im
                echoes[2 * i + 1] += a * im + b * re
        if phases.size:
            re, im = phases[number].real, phases[number].imag
            turns = turn[offset:]
            for i in range(size // 2):
                c, d = turns[2 * i], turns[2 * i + 1]
                cosine, sine = c * re - d * im, c * im + d * re
                a, b = echoes[2 * i], echoes[2 * i + 1]
                echoes[2 * i] = a * cosine - b * sine
                echoes[2 * i + 1] = a * sine + b * cosine
        sums = out[begin:]
        for i in range(size):
            sums[i] += echoes[i]
        begin += size
        number += 1
