# SPDX-License-Identifier: GPL-3.0-or-later
"""The receivers: search for triggers, arrival estimates, SNR, and the streams of client and server."""
