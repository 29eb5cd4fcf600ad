# SPDX-License-Identifier: GPL-3.0-or-later
"""Give the path of the repository."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
