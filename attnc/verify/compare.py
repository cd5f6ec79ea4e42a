"""How far a result is from the reference, and how far it may be."""

from __future__ import annotations

import math

import torch
from torch import Tensor

FLOAT32_BOUND = 1e-5
# one rounding of each input, or one order of the sums, is a sample of what float32 may do; where
# all but a little cancels, samples differ this much
SAMPLES = 32.0
LOOSEST = 0.3  # an error above this is one, however much the result hangs on the last bits


def error(got: Tensor, wanted: Tensor, natural: float = 0.0) -> float:
    """The relative L2 error of the worst slab over the first two axes (batch and head).

    `natural` is the size that a number would have if nothing cancelled: where the result is much
    smaller, only a difference that counts beside this size counts. NaN for results of another
    shape or with NaN; infinity where infinities differ.
    """
    if got.shape != wanted.shape:
        return math.nan
    if not wanted.numel():
        return 0.0
    got, wanted = got.detach().double(), wanted.detach().double()
    if not torch.equal(got.isinf(), wanted.isinf()) or (got.isinf() & (got != wanted)).any():
        return math.inf
    infinite = wanted.isinf()
    difference = torch.where(infinite, 0.0, got - wanted)
    wanted = torch.where(infinite, 0.0, wanted)
    axes = tuple(range(min(2, wanted.dim() - 1), wanted.dim()))
    per_slab = wanted[(0,) * axes[0]].numel() if axes else 1
    least = natural * math.sqrt(per_slab)
    off = torch.linalg.vector_norm(difference, dim=axes)
    # a slab far smaller than its neighbours is judged beside them
    size = torch.linalg.vector_norm(wanted, dim=axes)
    size = size.clamp_min(max(least, 1e-2 * float(size.max()), 1e-300))
    ratio = off / size
    return math.nan if ratio.isnan().any() else float(ratio.max())


def bound(sensitivity: float, dtype: torch.dtype, plain: float = 0.0) -> float:
    """The error allowed, given the error that rounding the inputs once more makes, and that of the
    same mathematics in plain torch.

    Every kernel rounds intermediate results, so it cannot be better than that: on inputs where
    the result hangs on the last bits of q, the bound grows with it. Infinite where plain torch has
    no digit right: its dtype can't tell there.
    """
    if not plain <= LOOSEST:
        return math.inf
    sensitivity = sensitivity if math.isfinite(sensitivity) else 0.0
    if dtype is torch.float32:
        return min(LOOSEST, max(FLOAT32_BOUND, SAMPLES * max(sensitivity, plain)))
    return min(LOOSEST, 2.0 * max(sensitivity, plain, rounding(dtype)))


def rounding(dtype: torch.dtype) -> float:
    """The largest relative error of one rounding."""
    return torch.finfo(dtype).eps / 2
