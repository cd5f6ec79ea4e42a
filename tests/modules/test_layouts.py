"""Shapes, strides and memory: the same numbers wherever they lie."""

import re

import pytest
import torch

from attnc.verify.tensors import Guarded, Strides
from tests.modules.made import (
    SPECS,
    Sizes,
    backends,
    held,
    leaves,
    module,
    near,
    of_text,
    off,
    right,
    rows,
    run,
    source,
    spec_of,
    truth,
    ways,
)

THREE = ("softmax", "linear", "retention")


def attending(made, form: str, backend: str, **options):
    return lambda q, k, v: made.attention(q, k, v, form=form, backend=backend, **options)


@pytest.mark.parametrize("name", SPECS)
def test_the_forms(name: str) -> None:
    assert SPECS[name][1] == module(name).FORMS


@pytest.mark.parametrize(("name", "form", "backend"), ways())
def test_other_lengths_of_rows_and_keys(name, form, backend) -> None:
    """B04, B37, B34: both alignments, rows without a key, lengths that no tile divides."""
    few = ((5, 40), (35, 5))
    for L, S in few if backend == "triton" else (*few, (7, 7), (1, 8), (33, 31)):
        compare_lengths(name, form, backend, L, S)


def compare_lengths(name: str, form: str, backend: str, L: int, S: int) -> None:
    made, call = module(name), attending(module(name), form, backend)
    given = rows(Sizes(L, S, B=2 if backend == "torch" else 1), seed=L)
    right(made, call, given)
    if name in ("softmax", "linear") and L > S:
        got = run(call, *given)
        # B05, B37: exactly 0, and so is what flows back
        assert not got[0][:, :, : L - S].any() and not got[1][:, :, : L - S].any()


@pytest.mark.parametrize(("name", "form", "backend"), ways("softmax", "softmax_upper"))
def test_alignment_by_hand(name: str, form: str, backend: str) -> None:
    """B04: q = 0 weighs all visible keys alike, v[s] = s + 1."""
    right = {
        (5, 2): ([0, 0, 0, 1, 1.5], [1, 1.5, 1.5, 1.5, 1.5]),
        (2, 5): ([2.5, 3], [1, 1.5]),
        (1, 8): ([4.5], [1]),
        (3, 3): ([1, 1.5, 2], [1, 1.5, 2]),
        (2, 6): ([3, 3.5], [1, 1.5]),
    }
    for (L, S), wanted in right.items():
        v = torch.arange(1.0, S + 1).view(1, 1, S, 1)
        q, k = torch.zeros(1, 1, L, 1), torch.ones(1, 1, S, 1)
        o = attending(module(name), form, backend)(q, k, v)
        assert torch.allclose(o.flatten(), torch.tensor(wanted[name != "softmax"]).float())


# the interpreter is slow: each width on one spec or two
INTERPRETED = {
    "softmax": [(1, 2), (8, 24), (72, 5), (5, 72), (100, 16), (136, 3), (3, 136), (256, 192)],
    "linear": [(2, 1), (12, 40), (72, 5), (3, 136)],
    "retention": [(4, 12), (40, 8), (5, 72), (136, 3)],
}


@pytest.mark.parametrize(
    ("d_k", "d_v"),
    [(1, 2), (2, 1), (4, 12), (8, 24), (12, 40), (40, 8), (72, 5), (5, 72), (96, 100), (100, 16),
     (136, 3), (3, 136), (256, 192), (192, 256)],
)  # fmt: skip
@pytest.mark.parametrize("name", THREE)
def test_any_width(name: str, d_k: int, d_v: int) -> None:
    """B24: all columns are used, none is made up."""
    made = module(name)
    given = rows(Sizes(18, 18, d_k, d_v, H=1, G=1))
    for form in made.FORMS:
        for backend in backends():
            if backend == "triton" and (d_k, d_v) not in INTERPRETED[name]:
                continue
            right(made, attending(made, form, backend), given)


@pytest.mark.parametrize("backend", ["triton"])
@pytest.mark.parametrize("form", ["parallel", "chunkwise"])
def test_too_wide_is_refused(form: str, backend: str) -> None:
    if backend not in backends():
        pytest.skip("no triton")
    for d_k, d_v, word in ((257, 4, "d_k"), (4, 257, "d_v")):
        q, k, v, _ = rows(Sizes(3, 3, d_k, d_v))
        with pytest.raises(ValueError, match=word):
            attending(module("linear"), form, backend)(q, k, v)


def test_blocks_fit_tensor_cores() -> None:
    """B24: no product has a side under 16, which the interpreter would not mind."""
    for d in (1, 8, 16, 17, 100, 256):
        tiles = module("softmax")._pair_tiles(torch.float32, d, d)
        tiles |= module("linear")._state_tiles(d, d)
        assert all(size >= 16 for size in tiles.values()), tiles
        assert all(size >= d for name, size in tiles.items() if name in ("BK",)), tiles


LAYOUTS = {
    "transposed": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "fused": lambda x: torch.cat([x, x + 1, x - 1], -1)[..., : x.shape[-1]],
    "stepped": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "offset": lambda x: torch.cat([x[:1] * 7, x], 0)[1:],
    "rows turned": lambda x: x.mT.contiguous().mT,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("name", "form", "backend"), ways(*THREE))
def test_strides(name: str, form: str, backend: str, layout: str) -> None:
    """B17, B16: each of q, k, v and the gradient of o in turn, then all of them."""
    call = attending(module(name), form, backend)
    given = rows(Sizes(9, 9, 8, 8, B=2 if backend == "torch" else 1, H=3, G=3))
    wanted = run(call, *given)
    change = LAYOUTS[layout]
    for chosen in ({0}, {1}, {2}, {3}, {0, 1, 2, 3}) if backend == "torch" else ({0, 1, 2, 3},):
        moved = [change(x) if at in chosen else x for at, x in enumerate(given)]
        assert not all(x is y for x, y in zip(moved, given, strict=True))
        near(strided(call, *moved), wanted, 1e-6)


def strided(call, q, k, v, do):
    # a leaf keeps its strides
    given = [x.detach().requires_grad_() for x in (q, k, v)]
    o = call(*given)
    return [o.detach(), *torch.autograd.grad(o, given, do)]


@pytest.mark.parametrize(("name", "form", "backend"), ways(*THREE))
def test_stride_zero(name: str, form: str, backend: str) -> None:
    """B16, B17: tensors expanded over heads, and the gradient of o.sum()."""
    call = attending(module(name), form, backend)
    q, k, v, _ = rows(Sizes(9, 9, H=1, G=1))
    one = torch.ones(()).expand(1, 3, 9, 3)
    spread = [x.expand(1, 3, *x.shape[2:]) for x in (q, k, v)]
    near(strided(call, *spread, one), run(call, *(x.contiguous() for x in spread), one + 0), 1e-6)


@pytest.mark.parametrize(("name", "form", "backend"), ways(*THREE))
def test_axes_of_one_element(name: str, form: str, backend: str) -> None:
    """B67: any stride of an axis of one element means nothing."""
    call = attending(module(name), form, backend)
    given = rows(Sizes(1, 1, 1, 1, H=1, G=1))
    odd = [x.as_strided(x.shape, (977, 331, 77, 55)) for x in given]
    near(strided(call, *odd), run(call, *given), 0.0)


@pytest.mark.parametrize("strides", list(Strides))
@pytest.mark.parametrize(("name", "form", "backend"), ways(*THREE))
def test_nothing_is_read_or_written_beside_tensors(name, form, backend, strides) -> None:
    """B10, B18, B48, B51: NaN all around, inputs and the gradient unchanged, y used twice."""
    made, guarded = module(name), Guarded()
    n = Sizes(18, 18, 12, 5, H=2, G=1)
    given = rows(n)
    views = [
        guarded.hold(word, x, strides) for word, x in zip(["q", "k", "v", "do"], given, strict=True)
    ]
    got = strided(attending(made, form, backend), *views)
    assert not guarded.changed()
    near(got, truth(made, *given))


@pytest.mark.parametrize(("name", "form", "backend"), ways(*THREE))
def test_backward_twice(name: str, form: str, backend: str) -> None:
    """B51: the second pass back gives the bits of the first, and so does a second call."""
    call = attending(module(name), form, backend)
    q, k, v, do = rows(Sizes(33, 33, 12, 5))
    given = leaves(q, k, v)
    o = call(*given)
    first = torch.autograd.grad(o, given, do, retain_graph=True)
    second = torch.autograd.grad(o, given, do)
    again = run(call, q, k, v, do)
    for x, y, z in zip((o, *first), (o, *second), again, strict=True):
        assert torch.equal(x, y) and torch.equal(x, z)


@pytest.mark.parametrize(("name", "form", "backend"), ways("softmax", "linear", "retention"))
def test_each_input_alone(name: str, form: str, backend: str) -> None:
    """B52: a gradient for each single input that asks for one, and none for the others."""
    call = attending(module(name), form, backend)
    *given, do = rows(Sizes(6, 6))
    wanted = run(call, *given, do)[1:]
    for at in range(3):
        alone = [x.clone().requires_grad_(n == at) for n, x in enumerate(given)]
        call(*alone).backward(do)
        assert [x.grad is not None for x in alone] == [n == at for n in range(3)]
        near([alone[at].grad], [wanted[at]], 1e-6)


@pytest.mark.parametrize(("H", "G"), [(4, 2), (3, 1), (1, 2)])
@pytest.mark.parametrize(("name", "form", "backend"), ways(*THREE))
def test_shared_heads(name: str, form: str, backend: str, H: int, G: int) -> None:
    """Query head h reads head h // (H / own): of k and v, and of q where it has fewer."""
    made = module(name)
    given = rows(Sizes(10, 10, H=H, G=G))
    got = run(attending(made, form, backend), *given)
    heads = max(H, G)
    spread = [x.repeat_interleave(heads // x.shape[1], 1) for x in given]
    near(got[:1], truth(made, *spread)[:1])
    near(got, truth(made, *given))
    summed = [
        x.unflatten(1, (y.shape[1], -1)).sum(2)
        for x, y in zip(truth(made, *spread)[1:], given, strict=False)
    ]
    near(got[1:], summed)


@pytest.mark.parametrize(("name", "form", "backend"), ways(*THREE, "alibi"))
def test_each_batch_and_head_alone(name: str, form: str, backend: str) -> None:
    """B19: no offset of a batch or of a head is left out; decays differ by the head."""
    made = module(name)
    given = rows(Sizes(9, 9, 12, 5, B=2, H=3, G=3))
    got, wanted = run(attending(made, form, backend), *given), truth(made, *given)
    for b in range(2):
        for h in range(3):
            for x, y in zip(got, wanted, strict=True):
                assert off(x[b, h], y[b, h]) <= 1e-5, (b, h)


EMPTY = [Sizes(4, 4, B=0), Sizes(0, 4), Sizes(4, 0), Sizes(0, 0)]


@pytest.mark.parametrize("n", EMPTY, ids=["B", "L", "S", "L and S"])
@pytest.mark.parametrize(("name", "form", "backend"), ways(*THREE))
def test_empty_tensors(name: str, form: str, backend: str, n: Sizes) -> None:
    """B62: results and gradients of the right shape, 0 where there is no key; the state stays."""
    made = module(name)
    q, k, v, do = rows(n)
    got = run(attending(made, form, backend), q, k, v, do)
    assert [x.shape for x in got] == [x.shape for x in (do, q, k, v)]
    if n.S == 0 or n.L == 0:
        assert not any(x.any() for x in got)
    if n.L > n.S or not n.B:
        return
    before = made.attention(*rows(Sizes(5, 5))[:3], backend=backend, return_state=True)[1]
    _, after = made.attention(
        q, k, v, form=form, backend=backend, initial_state=before, return_state=True
    )
    assert after.length == 5 + n.S
    if not n.S:
        pairs = zip(*(held(x) for x in (before, after)), strict=True)
        assert all(torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("name", SPECS)
def test_every_masked_load_says_what_is_beyond(name: str) -> None:
    """B49, B80: a fill value at each masked load, a precision at each product."""
    text = source(spec_of(name))
    loads = re.findall(r"tl\.load\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", text)
    assert len(loads) == text.count("tl.load(") > 0
    assert all("other=" in load for load in loads if "mask=" in load)
    # but for the one number of a head
    assert all("mask=" in load or re.fullmatch(r"tl\.load\(c\d+ \+ h\)", load) for load in loads)
    assert "make_block_ptr" not in text and "atomic" not in text
    products = [line for line in text.splitlines() if "tl.dot(" in line]
    assert products and all("input_precision=" in line for line in products)


def test_a_window_behind_the_first_tile() -> None:
    """B05: rows whose first tiles of keys are all hidden."""
    text = "attention a {\n" + SPECS["softmax"][0].replace("causal", "causal and i - j < 3") + "}\n"
    made = of_text(text)
    given = rows(Sizes(140, 140, H=1, G=1))
    for backend in backends():
        right(made, attending(made, "parallel", backend), given)
