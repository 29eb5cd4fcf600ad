# SPDX-License-Identifier: GPL-3.0-or-later
"""Implement Algorithm 1 of the paper: selection, server, client and models, without air, network or files."""
