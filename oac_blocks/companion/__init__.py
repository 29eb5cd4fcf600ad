# SPDX-License-Identifier: GPL-3.0-or-later
"""GNU Radio Companion with the blocks of this project: started by us, or a plain one that is told of them."""
