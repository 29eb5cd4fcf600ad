# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the largest, the oldest and random entries: on arrays, on bits with compiled kernels, and on torch tensors."""
