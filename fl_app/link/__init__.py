# SPDX-License-Identifier: GPL-3.0-or-later
"""Server and clients as processes that survive each other, on one machine or several. docs/link.md explains it."""
