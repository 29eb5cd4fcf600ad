# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the figures of the benchmarks as JSON, and compare those of two commits."""
