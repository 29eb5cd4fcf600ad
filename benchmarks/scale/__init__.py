# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how selection and rounds grow with the model: time, memory, slopes."""
