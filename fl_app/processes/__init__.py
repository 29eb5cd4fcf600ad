# SPDX-License-Identifier: GPL-3.0-or-later
"""Start child processes that end with their parent, and make folders that do not outlive their process."""
