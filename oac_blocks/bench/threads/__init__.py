# SPDX-License-Identifier: GPL-3.0-or-later
"""A bench in one process: server and clients as threads, each on a ``Radio``."""
