# SPDX-License-Identifier: GPL-3.0-or-later
"""Federated learning over the air: FAIR-k and its rivals, trained through simulated or real radios."""
