"""Specs, the modules generated from them, and what tests do with modules: call, differentiate,
compare."""

from __future__ import annotations

import atexit
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

import attnc
from attnc.resources import folder

# short chunks: their borders lie within what the interpreter computes in little time
CHUNK = 16
SHORT = f"chunk = {CHUNK}\n"
CAUSAL = "mask = causal\nalign = lower_right\n"
LINEAR = "phi(x) = elu(x) + 1\nsimilarity = phi(q) @ phi(k)\nnormalizer = on\n"
SOFTMAX = "similarity = exp(q @ k / sqrt(d_k))\nnormalizer = on\n"
DECAY = "similarity = q @ k\ndecay = 1 - 2^(-5 - h)\nnormalizer = off\n"

PARALLEL = ("parallel",)
NOT_CAUSAL = ("parallel", "chunkwise")
ALL = ("parallel", "chunkwise", "recurrent")

# clauses and the forms that they have
SPECS = {
    "softmax": (SOFTMAX + CAUSAL, PARALLEL),
    "softmax_upper": (SOFTMAX + "mask = causal\nalign = upper_left\n", PARALLEL),
    "softmax_of_all": (SOFTMAX + "mask = none\n", PARALLEL),
    "softmax_window": (
        SOFTMAX + "mask = causal and (i - j < 20 or j < 2)\nalign = lower_right\n",
        PARALLEL,
    ),
    "alibi": (SOFTMAX + CAUSAL + "decay = exp(-2^(-1 - h))\n", PARALLEL),
    "squares": ("similarity = (q @ k)^2\nmask = causal and i - j < 7\nalign = lower_right\n"
                "normalizer = on\n", PARALLEL),
    "linear": (SHORT + LINEAR + CAUSAL, ALL),
    "linear_upper": (SHORT + LINEAR + "mask = causal\nalign = upper_left\n", ALL),
    "linear_of_all": (SHORT + LINEAR + "mask = none\n", NOT_CAUSAL),
    "retention": (SHORT + DECAY + CAUSAL, ALL),
    "normalized_retention": (SHORT + LINEAR + CAUSAL + "decay = 1 - 2^(-5 - h)\n", ALL),
    "forgetful": (SHORT + LINEAR + CAUSAL + "decay = exp(-3 - 7 * h)\n", ALL),
    "sums": (SHORT + "similarity = relu(q) @ relu(k)\nnormalizer = off\n" + CAUSAL, ALL),
    "linear_plus_one": (SHORT + LINEAR.replace("= on", "= on(eps = 1)") + CAUSAL, ALL),
}  # fmt: skip


def backends() -> tuple[str, ...]:
    return ("triton", "torch") if find_spec("triton") else ("torch",)


def ways(*names: str) -> list[tuple[str, str, str]]:
    """(spec, form, backend), for parametrize: every form on every backend."""
    names = names or tuple(SPECS)
    return [(name, f, b) for name in names for f in SPECS[name][1] for b in backends()]


@cache
def _here() -> Path:
    path = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@cache
def source(text: str, **settings: object) -> str:
    return attnc.compile(text, set=settings, verify="none").source


def imported(text: str, name: str) -> ModuleType:
    """A module's text, in a file of its own, imported."""
    path = _here() / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses look their module up
    found.loader.exec_module(module)
    return module


@cache
def of_text(text: str, **settings: object) -> ModuleType:
    name = f"made_{abs(hash((text, *settings.items())))}"
    return imported(source(text, **settings), name)


def module(name: str) -> ModuleType:
    return of_text(spec_of(name))


def example(name: str, **settings: object) -> ModuleType:
    text = (folder("examples") / f"{name}.attn").read_text(encoding="utf-8")
    return of_text(text, **settings)


def spec_of(name: str) -> str:
    return f"attention made {{\n{SPECS[name][0]}}}\n"


@dataclass(frozen=True)
class Sizes:
    """H: query heads, G: heads of k and v."""

    L: int
    S: int
    d_k: int = 5
    d_v: int = 3
    B: int = 1
    H: int = 2
    G: int = 2


def rows(n: Sizes, dtype: torch.dtype = torch.float32, seed: int = 0) -> list[Tensor]:
    """q, k, v and a gradient of o, the same numbers in every dtype but for its rounding."""
    random = torch.Generator().manual_seed(seed)
    H = max(n.H, n.G)
    shapes = [(n.H, n.L, n.d_k), (n.G, n.S, n.d_k), (n.G, n.S, n.d_v), (H, n.L, n.d_v)]
    made = [torch.randn(n.B, *shape, generator=random, dtype=torch.float64) for shape in shapes]
    return [x.to(dtype) for x in made]


def leaves(*tensors: Tensor) -> list[Tensor]:
    return [x.detach().clone().requires_grad_() for x in tensors]


def run(call: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, do: Tensor) -> list[Tensor]:
    """o, dq, dk, dv"""
    given = leaves(q, k, v)
    o = call(*given)
    return [o.detach(), *torch.autograd.grad(o, given, do)]


def truth(made: ModuleType, q: Tensor, k: Tensor, v: Tensor, do: Tensor) -> list[Tensor]:
    """The same in float64, by the definition."""
    return run(made.reference, *(x.double() for x in (q, k, v, do)))


def off(got: Tensor, wanted: Tensor, scale: float = 0.0) -> float:
    """The relative error (L2), by `scale` where that is larger; infinite where something is NaN."""
    if got.shape != wanted.shape:
        return float("inf")
    difference = (got.double() - wanted.double()).norm().item()
    if difference == 0:
        return 0.0
    size = max(wanted.double().norm().item(), scale)
    error = difference / size if size else float("inf")
    return error if error == error else float("inf")


def near(
    got: Sequence[Tensor],
    wanted: Sequence[Tensor],
    bound: float = 1e-5,
    scales: Sequence[float] = (),
) -> None:
    """All within the bound, or the sizes of all errors. NaN is an error."""
    scales = scales or (0.0,) * len(wanted)
    errors = [off(*each) for each in zip(got, wanted, scales, strict=True)]
    assert all(error <= bound for error in errors), errors


def right(made: ModuleType, call: Callable[..., Tensor], given: list[Tensor]) -> None:
    """o, dq, dk, dv of a call are those of the definition in float64.

    Under a normalizer the gradients of q and k are differences: where a row sees one key alone, of
    two equal terms. No float32 difference of them is exactly 0, so that an error below a tenth of
    the bound times the size of the terms is none.
    """
    q, k, v, do = (x.double() for x in given)
    pull = 0.1 * (do.norm() * v.norm(dim=-1).max()).item() if v.numel() else 0.0
    scales = [0.0, *(pull * x.abs().max().item() if x.numel() else 0.0 for x in (k, q)), 0.0]
    got, wanted = run(call, *given), truth(made, q, k, v, do)
    near(got, wanted, scales=scales)


def held(state: object) -> list[Tensor]:
    """The tensors of a state."""
    found = torch.utils._pytree.tree_leaves(state)
    return [x for x in found if isinstance(x, Tensor)]
