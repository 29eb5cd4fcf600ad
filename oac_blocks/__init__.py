# SPDX-License-Identifier: GPL-3.0-or-later
"""GNU Radio module for over-the-air computation; the signal processing is in ``oac_blocks.dsp``."""
