"""Probe -> tensors, each inside a larger buffer whose other numbers are NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnc.verify.probe import Given, Numbers, Probe, Strides

GUARD = 64  # numbers before and after
FOREIGN = 1 << 20  # where a type has no NaN


@dataclass
class Guarded:
    """Buffers and what they held: whoever writes into an input, or beside it, is found out."""

    buffers: list[tuple[str, Tensor, Tensor]] = field(default_factory=list)

    def hold(self, name: str, values: Tensor, strides: Strides, device: str = "cpu") -> Tensor:
        """The values, as a view into a buffer of the given kind."""
        view, buffer = _embed(values, strides)
        buffer = buffer.to(device)
        view = buffer.as_strided(view.size(), view.stride(), view.storage_offset())
        self.buffers.append((name, buffer, buffer.clone()))
        return view

    def changed(self) -> str:
        """The names of the tensors whose buffers are not as they were."""
        return ", ".join(
            name
            for name, now, before in self.buffers
            if not torch.equal(now.view(torch.uint8), before.view(torch.uint8))
        )


def _embed(values: Tensor, strides: Strides) -> tuple[Tensor, Tensor]:
    shape = list(values.shape)
    swap = strides is Strides.SWAPPED and len(shape) == 4
    if swap:
        shape[1], shape[2] = shape[2], shape[1]
    if strides in (Strides.PADDED, Strides.STEPPED) and shape:
        shape[-1] = 2 * shape[-1] + 1 if strides is Strides.STEPPED else shape[-1] + 3
    count = math.prod(shape)
    buffer = torch.full((count + 2 * GUARD,), _foreign(values.dtype), dtype=values.dtype)
    view = buffer[GUARD : GUARD + count].view(shape)
    if strides is Strides.PADDED and shape:
        view = view[..., 1:-2]
    elif strides is Strides.STEPPED and shape:
        view = view[..., 1::2]
    if swap:
        view = view.transpose(1, 2)
    view.copy_(values)
    return view, buffer


def _foreign(dtype: torch.dtype) -> float | int | bool:
    if dtype.is_floating_point:
        return math.nan
    return True if dtype is torch.bool else FOREIGN


@dataclass(frozen=True)
class Inputs:
    """What one call gets, in float64 but rounded to the probe's dtype."""

    q: Tensor
    k: Tensor
    v: Tensor
    tensors: dict[str, Tensor]

    def each(self, change: Callable[[str, Tensor], Tensor]) -> Inputs:
        q, k, v = (change(name, getattr(self, name)) for name in "qkv")
        return Inputs(q, k, v, {name: change(name, x) for name, x in self.tensors.items()})


def inputs_of(probe: Probe, count: int) -> Inputs:
    """The numbers of a probe, for `count` keys and as many further rows as there are further
    keys. The same every time."""
    random = torch.Generator().manual_seed(sum(map(ord, probe.name)) + count)
    dtype = getattr(torch, probe.dtype)
    rows = probe.rows + count - probe.keys

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random, dtype=torch.float64)

    def rounded(x: Tensor) -> Tensor:
        return x.to(dtype).double()

    q = normal(probe.batch, probe.heads, rows, probe.d_k) * probe.scale + probe.shift
    k = normal(probe.batch, probe.key_heads, count, probe.d_k) * probe.scale + probe.shift
    v = normal(probe.batch, probe.value_heads, count, probe.d_v)
    further = count - probe.keys
    tensors = {t.name: _numbers(t, further, random) for t in probe.tensors}
    return Inputs(rounded(q), rounded(k), rounded(v), tensors)


def _numbers(given: Given, further: int, random: torch.Generator) -> Tensor:
    shape = list(given.shape)
    for axis in (given.rows, given.keys):
        if axis is not None:
            shape[axis] += further
    if given.numbers is Numbers.BITS:
        return torch.rand(shape, generator=random) < 0.7
    if given.numbers is Numbers.IDS:
        axis = given.keys if given.keys is not None else given.rows
        steps = torch.rand(shape, generator=random) < 0.1
        if axis is None:
            return torch.randint(0, 7, shape, generator=random)
        return steps.long().cumsum(axis) % 3
    normal = torch.randn(shape, generator=random, dtype=torch.float64) * given.scale
    if given.numbers is Numbers.GATES:
        # strengths from hardly any decay to one that forgets at once
        sizes = torch.tensor([1e-4, 1e-2, 1.0, 12.0], dtype=torch.float64)
        chosen = torch.randint(0, 4, shape, generator=random)
        normal = -normal.abs() * sizes[chosen]
    return normal.float().double()


def dtype_of(name: str, value: Tensor, probe: Probe) -> torch.dtype:
    """The type in which a module gets a tensor: declared ones stay in float32."""
    if not value.dtype.is_floating_point:
        return value.dtype
    dtype: torch.dtype = getattr(torch, probe.dtype)
    return dtype if name in "qkv" else torch.float32
