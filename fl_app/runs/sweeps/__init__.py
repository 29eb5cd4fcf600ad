# SPDX-License-Identifier: GPL-3.0-or-later
"""Play many runs that differ in some settings, and put their results into one table, one figure and one page."""
