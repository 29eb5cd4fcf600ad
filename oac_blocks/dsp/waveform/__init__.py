# SPDX-License-Identifier: GPL-3.0-or-later
"""The waveform: numerology, OFDM, mappings of votes and entries, frames, sequences and the trigger."""
