# SPDX-License-Identifier: GPL-3.0-or-later
"""Reproduce the paper's figures and its table, each from one command."""
