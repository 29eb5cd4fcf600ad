# SPDX-License-Identifier: GPL-3.0-or-later
"""Algorithm 1 of the paper: selection, server, client and models. No air, no network, no files."""
