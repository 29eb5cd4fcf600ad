# SPDX-License-Identifier: GPL-3.0-or-later
"""Say whether torch has a fused multiply-add here; without one (x86 before AVX2) it rounds twice, as NumPy does."""

import pytest
import torch


def _fuses():
    one, nearly = torch.ones(64), torch.full((64,), 1 - 2.0**-23)
    return bool((one.add(nearly, alpha=-1 - 2.0**-23) == 2.0**-46).all())


needs_fused_torch = pytest.mark.skipif(not _fuses(), reason="torch has no fused multiply-add on this processor")
