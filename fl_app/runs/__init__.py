# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the training loop and keep its results: run folders, checkpoints, metrics, figures and reports."""
