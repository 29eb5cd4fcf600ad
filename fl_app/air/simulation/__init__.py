# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulate the air without a radio: ideal, fading (formulas) and waveform (the DSP core)."""
