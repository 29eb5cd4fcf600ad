# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe and play an experiment from Python; ``import fl_app`` offers all of it."""
