# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual Plutos: the IIOD protocol on one side, a simulated air that they all share on the other."""
