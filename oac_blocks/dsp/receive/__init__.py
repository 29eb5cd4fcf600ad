# SPDX-License-Identifier: GPL-3.0-or-later
"""Receive: search for triggers, estimate arrivals and SNR, and process the streams of client and server."""
