"""What one call is made of: inputs, a state to go on from, and the gradients that come back."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from attnc.verify.compare import rounding
from attnc.verify.probe import Job, Probe
from attnc.verify.tensors import Inputs, inputs_of

NATURAL = 0.05  # the part of the size without cancellation that still counts as a result
MATRIX = ("S", "z")


@dataclass(frozen=True)
class Material:
    """All in float64. `before` are the tokens of the state, `state` what the reference made of
    them, `matrix` its numbers where it is (S, z)."""

    inputs: Inputs
    before: Inputs | None
    state: Any
    matrix: dict[str, Tensor]


def material(module: ModuleType, job: Job, probe: Probe) -> Material:
    whole = inputs_of(probe, probe.keys + probe.past)
    if not probe.past:
        return Material(whole, None, None, {})
    before = part(whole, probe, 0, probe.past)
    after = part(whole, probe, probe.past, probe.past + probe.keys)
    return _with_state(module, job, Material(after, before, None, {}))


def _with_state(module: ModuleType, job: Job, m: Material) -> Material:
    assert m.before is not None
    q, k, v = (laid(x, job) for x in (m.before.q, m.before.k, m.before.v))
    with torch.no_grad():
        state = module.reference(q, k, v, return_state=True, **m.before.tensors)[-1]
    if not job.matrix_state:
        return replace(m, state=state)
    fields = {name: getattr(state, name) for name in MATRIX}
    return replace(m, state=state, matrix={n: x for n, x in fields.items() if x is not None})


def shaken(m: Material, module: ModuleType, job: Job, dtype: torch.dtype) -> Material:
    """The same with every float tensor and the state rounded once more, at random, as a kernel may
    do with them or with what it makes of them."""
    random = torch.Generator().manual_seed(7)

    def shake(name: str, x: Tensor) -> Tensor:
        return shaken_tensor(x, dtype, random) if x.is_floating_point() else x

    moved = replace(m, inputs=m.inputs.each(shake))
    if m.before is not None and not job.matrix_state:
        return _with_state(module, job, replace(moved, before=m.before.each(shake)))
    matrix = {name: shaken_tensor(x, dtype, random) for name, x in m.matrix.items()}
    return replace(moved, matrix=matrix)


def shaken_tensor(x: Tensor, dtype: torch.dtype, random: torch.Generator) -> Tensor:
    noise = torch.rand(x.shape, generator=random, dtype=torch.float64) * 2 - 1
    return x * (1 + rounding(dtype) * noise)


def part(inputs: Inputs, probe: Probe, first: int, past: int) -> Inputs:
    """The tokens from `first` up to `past`; rows and keys run together here."""
    span = slice(first, past)
    tensors = dict(inputs.tensors)
    for given in probe.tensors:
        for axis in (given.rows, given.keys):
            if axis is not None:
                tensors[given.name] = tensors[given.name].narrow(axis, first, past - first)
    return Inputs(inputs.q[:, :, span], inputs.k[:, :, span], inputs.v[:, :, span], tensors)


def laid(x: Tensor, job: Job) -> Tensor:
    """From the axes B H L d to the module's, and back."""
    return x.transpose(1, 2) if job.blhd else x


def cotangent(name: str, like: Tensor, dtype: torch.dtype) -> Tensor:
    """The gradient that comes back for an output, in float64, rounded to the output's type."""
    random = torch.Generator().manual_seed(sum(map(ord, name)))
    return torch.randn(like.shape, generator=random, dtype=torch.float64).to(dtype).double()


def natural_sizes(m: Material, softmax: bool) -> dict[str, float]:
    """About what a number of each result would be if nothing cancelled; see compare.error."""
    q, k, v = (_rms(x) for x in (m.inputs.q, m.inputs.k, m.inputs.v))
    if not softmax:
        q, k = min(q, 1.0), min(k, 1.0)
    pull = math.sqrt(m.inputs.v.shape[-1]) * v
    sizes = {"o": v, "lse": 1.0, "dq": pull * k, "dk": pull * q, "dv": 1.0}
    return {name: NATURAL * size for name, size in sizes.items()}


def _rms(x: Tensor) -> float:
    return float(x.square().mean().sqrt()) if x.numel() else 0.0
