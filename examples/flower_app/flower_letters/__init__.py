# SPDX-License-Identifier: GPL-3.0-or-later
"""A small Flower app: clients learn to read drawn letters, and their updates are added up over the air."""
