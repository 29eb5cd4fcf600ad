# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts that several blocks share: PDUs, tagged bursts, counts of dropped messages, base classes."""
