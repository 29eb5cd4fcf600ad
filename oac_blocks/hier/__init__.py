# SPDX-License-Identifier: GPL-3.0-or-later
"""Hierarchical blocks: GNU Radio's own blocks, put together."""
