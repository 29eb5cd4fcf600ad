# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run tells the live page besides its figures: the last round, the clients' radios so far, lines of a log."""
