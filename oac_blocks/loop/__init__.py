# SPDX-License-Identifier: GPL-3.0-or-later
"""Close the loop that keeps clients aligned: states, tracker, clock drift and power control, without I/O."""
