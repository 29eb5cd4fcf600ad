# SPDX-License-Identifier: GPL-3.0-or-later
"""GNU Radio module for over-the-air computation: blocks on top, the maths in ``oac_blocks.dsp``."""
