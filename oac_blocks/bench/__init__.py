# SPDX-License-Identifier: GPL-3.0-or-later
"""Radios that play rounds together: as threads on a ``Radio``, and as GNU Radio flowgraphs."""
