# SPDX-License-Identifier: GPL-3.0-or-later
"""Child processes that end with their parent, and folders that do not outlive them."""
