# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the steps of clients and server: batches, learning rates, local and global optimisers."""
