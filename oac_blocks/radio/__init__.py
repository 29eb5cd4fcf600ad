# SPDX-License-Identifier: GPL-3.0-or-later
"""Live radios: the interface (``base``), which driver opens which uri (``registry``), Plutos, and virtual Plutos.

A driver is one module with a subclass of ``base.Radio``; it declares its own limits. ``pluto`` is the only one here.
``pluto_state`` (read, make ready, restore) and ``pluto_probe`` belong to it, and ``ad9361`` says what its chip can be
set to. Only the modules of the Pluto import pyadi-iio and pylibiio; the rest needs numpy and scipy alone.
"""
