# SPDX-License-Identifier: GPL-3.0-or-later
"""Provide what several tests need: waiting, processes, ports, signals and runs, each in its own module."""
