# SPDX-License-Identifier: GPL-3.0-or-later
"""The airs on the other side of a socket or a cable: GNU Radio flowgraphs and Plutos."""
