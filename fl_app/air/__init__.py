# SPDX-License-Identifier: GPL-3.0-or-later
"""One interface, several worlds: ideal, fading (formulas), waveform (the DSP core)."""
