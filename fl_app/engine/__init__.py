# SPDX-License-Identifier: GPL-3.0-or-later
"""Who computes the clients: this process, or a pool of processes."""
