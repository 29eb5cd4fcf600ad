# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what the live page shows besides the figures: the last round, the clients' radios, lines of a log."""
