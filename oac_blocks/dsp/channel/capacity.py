# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the Shannon rate of a subcarrier in fading: what digital transmission could reach at best."""

from __future__ import annotations

import math

import scipy.integrate

from oac_blocks.dsp.channel.fading import FADINGS, Fading
from oac_blocks.dsp.checks import real, require

_TAIL = 40.0  # nepers before the rise of the integrand: it is below e^-40 of its height there
_END = math.log(750.0)  # where e^-z is zero in double precision


def ergodic_rate(snr: float, fading: Fading = "rayleigh", rician_k_db: float = 10.0) -> float:
    """Return E[log2(1 + snr |h|^2)] in bits per subcarrier and symbol, for a gain h of mean power 1.

    A receiver that knows the channel reaches this rate, with a code word that sees all fades. It is
    ``log2(1 + snr)`` without fading and ``exp(1 / snr) E1(1 / snr) / ln 2`` in Rayleigh fading, where E1 is the
    exponential integral.

    Parameters
    ----------
    snr : float
        Linear ratio of the mean received energy on a subcarrier to its noise variance, > 0.
    fading : str
        "none", "rayleigh" or "rician".
    rician_k_db : float
        Power of the steady path over the power of the others in dB; of "rician" alone.

    Returns
    -------
    float
        Bits per subcarrier and symbol.

    Notes
    -----
    For X >= 0, E[ln(1 + X)] is the integral of (1 - E[exp(-z X)]) exp(-z) / z over z > 0. The Laplace transform of a
    Rician power gain with a steady part of power a is exp(-a z / (1 + (1 - a) z)) / (1 + (1 - a) z). So one smooth
    integral serves all three kinds of fading: a = 0 is Rayleigh fading, and a = 1 does not fade. It is taken over ln z.

    Examples
    --------
    >>> round(ergodic_rate(100.0), 3), round(ergodic_rate(100.0, "none"), 3)
    (5.884, 6.658)
    """
    snr = real("snr", snr, 0.0, open_low=True)
    require(fading in FADINGS, "fading", repr(fading), f"one of {', '.join(FADINGS)}")
    if fading == "none":
        return math.log1p(snr) / math.log(2)
    k = 10 ** (real("rician_k_db", rician_k_db) / 10) if fading == "rician" else 0.0
    steady, scattered = k / (k + 1), 1 / (k + 1)

    def slope(log_z: float) -> float:
        z = math.exp(log_z)
        spread = 1 + scattered * snr * z
        # 1 - exp(-x) / (1 + y), without the loss of digits where x and y are small
        outage = (scattered * snr * z - math.expm1(-steady * snr * z / spread)) / spread
        return outage * math.exp(-z)

    rise = -math.log(snr)
    low = min(rise, 0.0) - _TAIL
    nats, _ = scipy.integrate.quad(slope, low, _END, points=sorted({min(rise, 0.0), 0.0}), limit=200, epsabs=0.0)
    return float(nats) / math.log(2)
