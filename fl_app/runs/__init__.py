# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs and what they leave: the training loop, run folders, checkpoints, metrics, figures, reports."""
