# SPDX-License-Identifier: GPL-3.0-or-later
"""Map gradient entries to subcarrier amplitudes, so that the channel's sum is the sum of the gradients.

Entries 2q and 2q + 1 are the real and the imaginary part of subcarrier q. Each client rotates its phase by its own
channel estimate, so that all clients add up along the same axes at the server. The server's estimate is equation (7)
of the paper, (sum_n h_n g_n + xi) / N, where h_n is the client's remaining real gain and xi is noise of variance
``noise_power / (2 scale^2)`` on each entry.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import complex_array, integer, real, real_array, require
from oac_blocks.dsp.waveform.numerology import Numerology

Inversion = Literal["phase", "truncated"]


def symbols_needed(k: int, num: Numerology) -> int:
    """Return the number of OFDM symbols for k entries."""
    return -(-integer("k", k, 1) // num.entries_per_symbol)


def common_scale(entry_rms: float) -> float:
    """Return the amplitude with which entries of this RMS value put a mean energy of 1 on each subcarrier.

    All clients must apply the same scale, otherwise the sum is weighted. The server derives the scale from its gradient
    memory and sends it together with the mask.
    """
    return 1 / (np.sqrt(2) * real("entry_rms", entry_rms, 0.0, open_low=True))


def precoder(
    channel: npt.ArrayLike, inversion: Inversion = "phase", least_magnitude: float = 0.1
) -> npt.NDArray[np.complex64]:
    """Return the factors by which a client multiplies its subcarriers.

    Parameters
    ----------
    channel : array_like
        The client's estimate of the channel h, of any shape.
    inversion : {"phase", "truncated"}
        With ``phase`` the client rotates the phase only, and the server receives the entry times ``|h|``. With
        ``truncated`` the client inverts the channel where ``|h| >= least_magnitude`` and sends nothing elsewhere, so
        the server receives either the entry or nothing.
    least_magnitude : float
        Limits the power on a subcarrier to ``1 / least_magnitude^2`` with ``truncated``.

    Returns
    -------
    complex64 array of the channel's shape
    """
    h = complex_array("channel", channel, min_ndim=0)
    least = real("least_magnitude", least_magnitude, 0.0, open_low=True)
    require(inversion in ("phase", "truncated"), "inversion", repr(inversion), "'phase' or 'truncated'")
    magnitude = np.abs(h)
    # A channel of exactly zero has no phase, so any factor is as good.
    safe = np.where(magnitude > 0, magnitude, np.float32(1))
    if inversion == "phase":
        return np.conj(h) / safe
    return np.where(magnitude >= least, np.conj(h) / safe**2, np.complex64(0))


def truncation_probability(least_magnitude: float, mean_power: float = 1.0) -> float:
    """Return the share of subcarriers on which ``truncated`` inversion sends nothing in Rayleigh fading."""
    least, power = real("least_magnitude", least_magnitude, 0.0), real("mean_power", mean_power, 0.0, open_low=True)
    return float(-np.expm1(-(least**2) / power))


def encode(
    entries: npt.ArrayLike, num: Numerology, scale: float, precoding: npt.ArrayLike | None = None
) -> npt.NDArray[np.complex64]:
    """Return the grid (..., symbols, active) that carries float32 entries (..., k).

    ``precoding`` comes from :func:`precoder`. Its shape broadcasts against the grid: (active,) for one client,
    (N, 1, active) for N clients with frequency-selective channels, (N, 1, 1) for N clients with flat channels.
    """
    values = real_array("entries", entries)
    amplitude = np.float32(real("scale", scale, 0.0, open_low=True))
    *lead, k = values.shape
    symbols = symbols_needed(k, num)
    padded = np.zeros((*lead, symbols * num.entries_per_symbol), np.float32)
    np.multiply(values, amplitude, out=padded[..., :k])
    grid = padded.view(np.complex64).reshape(*lead, symbols, num.active_subcarriers)
    if precoding is not None:
        factors = complex_array("precoding", precoding, min_ndim=0)
        # Broadcasting (N, active) against (N, symbols, active) would silently mistake clients for symbols.
        fits = factors.ndim in (0, 1, grid.ndim) and np.broadcast_shapes(factors.shape, grid.shape) == grid.shape
        require(fits, "precoding", f"shape {factors.shape}", f"(active,) or of dimensions that stretch to {grid.shape}")
        grid *= factors
    return grid


def decode(
    grid: npt.ArrayLike, k: int, num: Numerology, scale: float, n_clients: int, mean_gain: float = 1.0
) -> npt.NDArray[np.float32]:
    """Return the server's estimate, float32 (..., k), of the mean entry over the clients.

    ``mean_gain`` is the mean mu_c of the fading, or 1 - :func:`truncation_probability` with truncated inversion. It
    makes the estimate unbiased. With the default 1 the estimate is exactly equation (7).
    """
    array = complex_array("grid", grid, min_ndim=2)
    k, n_clients = integer("k", k, 1), integer("n_clients", n_clients, 1)
    scale, mean_gain = real("scale", scale, 0.0, open_low=True), real("mean_gain", mean_gain, 0.0, open_low=True)
    needed = symbols_needed(k, num)
    expected = f"of shape (..., symbols >= {needed}, {num.active_subcarriers}) for k = {k}"
    fits = array.shape[-1] == num.active_subcarriers and array.shape[-2] >= needed
    require(fits, "grid", f"shape {array.shape}", expected)
    flat = np.ascontiguousarray(array).reshape(*array.shape[:-2], -1).view(np.float32)
    return flat[..., :k] * np.float32(1 / (scale * n_clients * mean_gain))
