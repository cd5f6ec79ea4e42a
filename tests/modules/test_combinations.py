"""Random combinations of everything: the meaning, the reference, every form and backend."""

from __future__ import annotations

import itertools
from functools import cache

import pytest
import torch
from torch import Tensor

import attnc
from attnc.ir.expr import TensorDecl
from attnc.ir.meaning import meaning
from tests.modules.combinations import Combination, linear
from tests.modules.made import backends, held, leaves, near, of_text

LINEAR = 64


@cache
def declared(text: str) -> tuple[attnc.ir.spec.AttnSpec, tuple[TensorDecl, ...]]:
    spec = attnc.compile(text, verify="none").ir
    return spec, spec.tensors


def given(mixed: Combination, dtype: torch.dtype = torch.float64) -> tuple[list[Tensor], dict]:
    """q, k and v; the declared tensors"""
    _, decls = declared(mixed.text)
    tensors = {t.name: mixed.tensor(t) for t in decls}
    cast = {n: x.to(dtype) if x.is_floating_point() else x for n, x in tensors.items()}
    return [x.to(dtype) for x in mixed.rows()], cast


def results(call, rows: list[Tensor], tensors: dict, **way) -> tuple[list[Tensor], list[Tensor]]:
    """o and the state; the gradients of the rows and of every float tensor."""
    names = [name for name, x in tensors.items() if x.is_floating_point()]
    leaf = leaves(*rows, *(tensors[name] for name in names))
    kept = tensors | dict(zip(names, leaf[3:], strict=True))
    o, state = call(*leaf[:3], **kept, return_state=True, **way)
    outs = [o, *(x for x in (getattr(state, n, None) for n in ("S", "z")) if x is not None)]
    made = torch.Generator().manual_seed(5)
    back = [torch.randn(x.shape, generator=made, dtype=torch.float64).to(x.dtype) for x in outs]
    found = torch.autograd.grad(outs, leaf, back, allow_unused=True)
    grads = [torch.zeros_like(x) if g is None else g for x, g in zip(leaf, found, strict=True)]
    return [x.detach() for x in outs], grads


def check(mixed: Combination) -> None:
    made, (spec, _) = of_text(mixed.text), declared(mixed.text)
    rows, tensors = given(mixed)
    outs, grads = results(made.reference, rows, tensors)
    arrays = {name: x.numpy() for name, x in tensors.items()}
    near(outs[:1], [torch.from_numpy(meaning(spec, *(x.numpy() for x in rows), arrays).o)], 1e-9)
    # where nothing but rounding is left of a gradient, it is measured by the largest of them
    scales = [2e-2 * max(g.norm().item() for g in grads)] * len(grads)
    for form, backend in itertools.product(made.FORMS, backends()):
        dtype = torch.float32 if backend == "triton" else torch.float64
        got = results(made.attention, *given(mixed, dtype), form=form, backend=backend)
        bounds = (1e-5, 1e-4) if backend == "triton" else (1e-9, 1e-9)
        near(got[0], outs, bounds[0], [1e-6] * len(outs))
        near(got[1], grads, bounds[1], scales)


def check_pieces(mixed: Combination) -> None:
    """Cut at every third place, the state from one form to the next, and through `step`."""
    made, (_, decls) = of_text(mixed.text), declared(mixed.text)
    (q, k, v), tensors = given(mixed)
    wanted = made.reference(q, k, v, **tensors)
    L = q.shape[2]
    axes = {t.name: [str(size) for size in t.dims] for t in decls}

    def piece(first: int, last: int) -> dict[str, Tensor]:
        cut = {}
        for name, x in tensors.items():
            axis = next((n for n, size in enumerate(axes[name]) if size in ("L", "S")), None)
            cut[name] = x if axis is None else x.narrow(axis, first, last - first)
        return cut

    for forms in itertools.product(made.FORMS, repeat=2):
        for at in range(0, L + 1, 3):
            o, state = made.attention(
                q[:, :, :at], k[:, :, :at], v[:, :, :at], **piece(0, at),
                form=forms[0], backend="torch", return_state=True,
            )  # fmt: skip
            rest, state = made.attention(
                q[:, :, at:], k[:, :, at:], v[:, :, at:], **piece(at, L),
                form=forms[1], backend="torch", initial_state=state, return_state=True,
            )  # fmt: skip
            assert state.length == L and all(x.isfinite().all() for x in held(state))
            near([torch.cat((o, rest), 2)], [wanted], 1e-9, [1e-9])


@pytest.mark.parametrize("seed", range(LINEAR))
def test_linear(seed: int) -> None:
    mixed = linear(seed)
    check(mixed)
    if mixed.sizes["L"] == mixed.sizes["S"] and mixed.parts[2] in ("causal", "padded", "documents"):
        check_pieces(mixed)


def test_the_combinations_meet_everything() -> None:
    """No part is forgotten by chance."""
    from tests.modules import combinations as parts

    met = {part for seed in range(LINEAR) for part in linear(seed).parts}
    wanted = [*parts.SIMILARITIES, *parts.TOKENS, *parts.CHANNELS, *parts.MASKS]
    assert {*wanted, *parts.NORMALIZERS, *parts.REGIMES, "read = before"} <= met
