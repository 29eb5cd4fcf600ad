# SPDX-License-Identifier: GPL-3.0-or-later
"""Run server and clients as processes that survive each other, on one machine or several; see docs/link.md."""
