# SPDX-License-Identifier: GPL-3.0-or-later
"""The GNU Radio blocks, one per module, thin: the maths is in ``oac_blocks.dsp`` and ``oac_blocks.loop``."""
