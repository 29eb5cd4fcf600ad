# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the networks that come with gr-oac: for images, for flat inputs, for text."""
