# SPDX-License-Identifier: GPL-3.0-or-later
"""The IIOD protocol of a virtual Pluto: commands, devices and their attributes."""
