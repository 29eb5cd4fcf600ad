# SPDX-License-Identifier: GPL-3.0-or-later
"""Blocks that test a link and show how well it works: random sources, probes, and vectors for plots."""
