# SPDX-License-Identifier: GPL-3.0-or-later
"""A scheme of one module, to show what adding one takes: votes that abstain where an entry is below the median.

All that is said here is what differs from the majority vote; everything else of the system asks the scheme.
``register_scheme(Ternary())`` makes it known; the test does so, and takes it back.
"""

import numpy as np

from oac_blocks.dsp.waveform.schemes.majority_vote import MajorityVote


class Ternary(MajorityVote):
    name = "ternary"

    def payload_of(self, entries, coins, abstain_below=0.0):
        return super().payload_of(entries, coins, max(abstain_below, float(np.median(np.abs(entries)))))
