# SPDX-License-Identifier: GPL-3.0-or-later
"""Combine GNU Radio's own blocks into hierarchical blocks."""
