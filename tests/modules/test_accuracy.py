"""Float32 against float64: the three examples, over sizes beside and beyond every tile."""

import math

import pytest
import torch
from torch import Tensor

from tests.modules.made import Sizes, backends, example, off, rows, run

FORMS = {
    "softmax_causal": ("parallel",),
    "linear": ("parallel", "chunkwise", "recurrent"),
    "retention": ("parallel", "chunkwise", "recurrent"),
}
HEADS = 2
WIDTHS = (5, 16, 64, 80, 128)
LENGTHS = (1, 2, 63, 64, 65, 200)
# every width and every length, each once or twice; the interpreter is slow
PAIRS = ((5, 200), (16, 65), (64, 63), (80, 2), (128, 1), (80, 64))
BOUND = 1e-5


def definition(name: str, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The three of them, by hand; L = S."""
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
    if name == "softmax_causal":
        scores = q @ k.mT / math.sqrt(q.shape[3])
        return scores.masked_fill(~seen, -math.inf).softmax(-1) @ v
    if name == "linear":
        q, k = torch.nn.functional.elu(q) + 1, torch.nn.functional.elu(k) + 1
        weight = (q @ k.mT).masked_fill(~seen, 0)
        return weight @ v / weight.sum(-1, keepdim=True)
    steps = torch.arange(q.shape[2])[:, None] - torch.arange(k.shape[2])
    fade = (1 - 2.0 ** (-5 - torch.arange(q.shape[1], dtype=q.dtype)))[:, None, None]
    return (q @ k.mT * fade ** steps.clamp(min=0)).masked_fill(~seen, 0) @ v


def scales(q: Tensor, k: Tensor, v: Tensor, do: Tensor) -> list[float]:
    """How large the terms of o, dq, dk, dv are before they cancel.

    A row that sees one key gives it the weight 1 whatever the score is, so at L = 1 the gradients
    of q and k are exactly 0 where weights are normalized: the difference of two equal terms, each
    as large as do . v. An error is compared with those, for no float32 difference of them is 0.
    """
    terms = (do.norm() * v.norm()).item() if q.shape[2] == 1 else 0.0
    return [0.0, terms, terms, 0.0]


def compare(name: str, d: int, L: int, form: str, backend: str) -> None:
    made = example(name, heads=HEADS)
    given = rows(Sizes(L, L, d, d, H=HEADS, G=HEADS), seed=d + L)
    wanted = run(lambda q, k, v: definition(name, q, k, v), *(x.double() for x in given))
    got = run(lambda q, k, v: made.attention(q, k, v, form=form, backend=backend), *given)
    found = [off(*each) for each in zip(got, wanted, scales(*given), strict=True)]
    assert all(error <= BOUND for error in found), (d, L, found)


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    assert FORMS[name] == example(name).FORMS


@pytest.mark.parametrize(("d", "L"), PAIRS)
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.skipif("triton" not in backends(), reason="no triton")
def test_triton(name: str, d: int, L: int) -> None:
    for form in FORMS[name]:
        compare(name, d, L, form, "triton")


@pytest.mark.parametrize("d", WIDTHS)
@pytest.mark.parametrize("name", FORMS)
def test_torch(name: str, d: int) -> None:
    for form in FORMS[name]:
        for L in LENGTHS:
            compare(name, d, L, form, "torch")
