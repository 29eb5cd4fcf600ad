# SPDX-License-Identifier: GPL-3.0-or-later
"""The live page: follow the folders of runs, and serve what they hold to a browser."""
