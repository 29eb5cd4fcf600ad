# SPDX-License-Identifier: GPL-3.0-or-later
"""What is measured, against whom. Machines differ and are busy: ratios taken in one run count, seconds do not."""
