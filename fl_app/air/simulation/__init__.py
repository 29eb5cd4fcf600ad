# SPDX-License-Identifier: GPL-3.0-or-later
"""The airs that need no radio: ideal, fading (formulas) and waveform (the DSP core)."""
