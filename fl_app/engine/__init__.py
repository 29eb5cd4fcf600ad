# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the clients in this process or in a pool of processes."""
