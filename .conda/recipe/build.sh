#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Called by conda build. Companion finds what is in GNU Radio's own folders, without `oac-blocks register`.
set -euo pipefail
"$PYTHON" -m pip install . --no-deps --no-build-isolation -vv
install -d "$PREFIX/share/gnuradio/grc/blocks" "$PREFIX/share/gnuradio/examples/oac"
install -m 644 oac_blocks/grc/*.block.yml "$PREFIX/share/gnuradio/grc/blocks"
install -m 644 grc_flows/*.grc "$PREFIX/share/gnuradio/examples/oac"
