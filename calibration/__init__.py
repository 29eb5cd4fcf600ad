# SPDX-License-Identifier: GPL-3.0-or-later
"""Calibrate radios that share no clock: estimators, simulation, log and command line."""
