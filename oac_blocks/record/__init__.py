# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the rounds that a server receives as SigMF, and hear them again: ``--record`` and ``oac-blocks replay``."""
