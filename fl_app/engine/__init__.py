# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the clients in this process, in a pool of processes or on a Ray cluster."""
