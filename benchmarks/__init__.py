# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure this project against others' code. Machines differ and are busy: compare ratios of one run, not seconds."""
