# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of the radios: the engine that plays them, without I/O, and what its messages say."""
