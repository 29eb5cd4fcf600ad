# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the paper's theory: ages of entries, the bound on convergence, and what staleness does to noise."""
