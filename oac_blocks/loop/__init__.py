# SPDX-License-Identifier: GPL-3.0-or-later
"""The closed loop that keeps clients in time: states, tracker, clock drift and power control, without I/O."""
