# SPDX-License-Identifier: GPL-3.0-or-later
"""Train models by federated learning over the air: FAIR-k and its rivals, through simulated or real radios."""
