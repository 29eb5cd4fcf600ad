# SPDX-License-Identifier: GPL-3.0-or-later
"""The physics between virtual radios: crystals, propagation paths, noise, gains and converters."""
