# SPDX-License-Identifier: GPL-3.0-or-later
"""Live radios: what each can do (``base``), ADALM-Plutos (``pluto``), and simulated ones (``virtual``).

Only ``pluto`` imports pyadi-iio; ``pluto_state`` (read, make ready, restore) and ``pluto_probe`` import pylibiio; the
rest needs numpy and scipy alone.
"""
