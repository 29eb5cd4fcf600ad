# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the commands of ``fl_app``; each is thin and calls the rest of the package."""
