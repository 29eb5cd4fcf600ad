# SPDX-License-Identifier: GPL-3.0-or-later
"""Calibration of radios that share no clock: estimators, the closed loop, its command line."""
