# SPDX-License-Identifier: GPL-3.0-or-later
"""What several tests need: waiting, processes, ports, signals, runs. Each module answers one of these questions."""
