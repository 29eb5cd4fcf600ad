# SPDX-License-Identifier: GPL-3.0-or-later
"""Flowgraphs without a screen, for any number of clients: what applications and tests start."""
