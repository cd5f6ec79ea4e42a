"""Hard numbers: large scores, small features, decays of any strength, NaN, 16 bits."""

import math

import pytest
import torch

from tests.modules.made import (
    ALL,
    Sizes,
    backends,
    held,
    leaves,
    module,
    near,
    of_text,
    right,
    rows,
    run,
    truth,
    ways,
)

THREE = ("softmax", "linear", "retention")
HALVES = (torch.float16, torch.bfloat16)


def attending(made, form: str, backend: str):
    return lambda q, k, v: made.attention(q, k, v, form=form, backend=backend)


def column(*numbers: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """[1, 1, L, 1]"""
    return torch.tensor(numbers, dtype=dtype).view(1, 1, -1, 1)


NORMALIZED = ("softmax", "softmax_window", "alibi", "linear", "linear_of_all", "forgetful")


@pytest.mark.parametrize(("name", "form", "backend"), ways(*NORMALIZED))
def test_weights_sum_to_one(name: str, form: str, backend: str) -> None:
    """B02: values of 1 give 1, and change nothing that they depend on."""
    q, k, v, _ = rows(Sizes(37, 37))
    given = leaves(q, k, torch.ones_like(v))
    o = attending(module(name), form, backend)(*given)
    assert (o - 1).abs().max() <= 1e-5
    dq, dk, _ = torch.autograd.grad(o.sum(), given)
    assert dq.abs().max() <= 1e-4 and dk.abs().max() <= 1e-4


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("form", ALL)
def test_the_gradient_of_the_denominator(form: str, backend: str) -> None:
    """B01: with the identity on positive rows, by hand; then as the report has it."""
    made = of_text(
        "attention a {\n phi(x) = relu(x)\n similarity = phi(q) @ phi(k)\n mask = causal\n"
        " align = lower_right\n normalizer = on\n}\n"
    )
    q, k, v = leaves(column(1, 1), column(1, 1), column(0, 1))
    attending(made, form, backend)(q, k, v).sum().backward()
    assert torch.allclose(k.grad, column(-0.25, 0.25), atol=1e-6)
    n = Sizes(64, 64, 8, 8, B=2 if backend == "torch" else 1)
    q, k, v, do = rows(n)
    given = [q.sigmoid() + 0.1, k.sigmoid() + 0.1, v, torch.ones_like(do)]
    near(run(attending(made, form, backend), *given), truth(made, *given))


@pytest.mark.parametrize(("name", "form", "backend"), ways("linear"))
def test_small_features_are_not_rounded_away(name: str, form: str, backend: str) -> None:
    """B07: elu(x) + 1 at -8 is exp(-8), in bfloat16 too; it is 1 with slope 1 at 0."""
    made, call = module(name), attending(module(name), form, backend)
    for dtype in (torch.float32, torch.bfloat16):
        q, k, v = leaves(*(column(x, dtype=dtype) for x in (-8, -8, 1)))
        o = call(q, k, v)
        o.sum().backward()
        assert abs(o.item() - 1) <= 1e-2
        assert all(abs(x.grad.item()) <= 1e-2 for x in (q, k))
    for x in (-4.0, -6.0, -8.0, -30.0):
        state = made.attention(
            column(0.0), column(x), column(1.0), form=form, backend=backend, return_state=True
        )[1]
        assert state.z.item() == pytest.approx(math.exp(x), rel=1e-5)
    near([made.attention(column(0.0), column(0.0), column(1.0), form=form, backend=backend)],
         [column(1.0)])  # fmt: skip


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("form", ALL)
def test_a_feature_at_its_kink(form: str, backend: str) -> None:
    """B07: the slope of elu(x) + 1 at 0 is 1."""
    made = of_text(
        "attention a {\n phi(x) = elu(x) + 1\n similarity = phi(q) @ phi(k)\n mask = causal\n"
        " align = lower_right\n normalizer = off\n}\n"
    )
    q, k, v = leaves(column(0), column(0), column(3))
    o = attending(made, form, backend)(q, k, v)
    o.sum().backward()
    assert o.item() == 3 and q.grad.item() == 3 and k.grad.item() == 3 and v.grad.item() == 1


@pytest.mark.parametrize("scale", [1e-6, 30.0, 1e4])
@pytest.mark.parametrize(("name", "form", "backend"), ways("softmax", "alibi", "softmax_window"))
def test_scores_of_any_size(name: str, form: str, backend: str, scale: float) -> None:
    """No overflow, nothing lost: scores up to 1e4 and beyond."""
    made = module(name)
    q, k, v, do = rows(Sizes(40, 40, H=1, G=1))
    # integers: float32 scores of this size are otherwise off by more than 1
    q = (3 * q).round() * scale
    k = (3 * k).round()
    got = run(attending(made, form, backend), q, k, v, do)
    assert all(x.isfinite().all() for x in got)
    wanted = truth(made, q, k, v, do)
    near(got[:1], wanted[:1], 1e-3 if scale > 100 else 2e-5)
    near(got[3:], wanted[3:], 1e-3 if scale > 100 else 2e-5)
    lse = made.attention(q, k, v, form=form, backend=backend, return_lse=True)[1]
    near([lse], [made.reference(q.double(), k.double(), v.double(), return_lse=True)[1]], 1e-5)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("name", "form", "backend"), ways("softmax"))
def test_scores_of_half_precision(name: str, form: str, backend: str, dtype) -> None:
    """B45, B41: a score of -65504 minus 100 and more is no infinity, for scores are float32."""
    q = column(255.0, 255.0, dtype=dtype).expand(1, 1, 2, 4)
    k = column(-255.0, -256.0, dtype=dtype).expand(1, 1, 2, 4)
    v = column(1.0, 3.0, dtype=dtype)
    o = run(attending(module(name), form, backend), q, k, v, torch.ones_like(v))
    assert all(x.isfinite().all() for x in o)
    assert o[0].flatten().tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("name", "form", "backend"), ways("softmax"))
def test_lse(name: str, form: str, backend: str) -> None:
    """The logarithm of each row's sum, -inf where there is none (B37), and differentiable."""
    made = module(name)

    def results(call, dtype):
        given = leaves(*rows(Sizes(9, 6), dtype)[:3])
        o, lse = call(*given, return_lse=True)
        loss = o.sum() + (lse[:, :, 3:] * torch.arange(12).view(1, 2, 6)).sum()
        return [o, lse[:, :, 3:], *torch.autograd.grad(loss, given), lse]

    got = results(lambda *x, **y: made.attention(*x, form=form, backend=backend, **y),
                  torch.float32)  # fmt: skip
    wanted = results(made.reference, torch.float64)
    near(got[:5], wanted[:5])
    assert got[5].dtype is torch.float32
    assert (got[5][:, :, :3] == -math.inf).all() and got[5][:, :, 3:].isfinite().all()


@pytest.mark.parametrize(("name", "form", "backend"), ways("softmax", "linear", "alibi"))
def test_gradients_of_empty_rows(name: str, form: str, backend: str) -> None:
    """B05, B37: rows without a key are 0, and are in the loss without harm."""
    given = rows(Sizes(8, 4, 8, 8))
    got = run(attending(module(name), form, backend), *given)
    right(module(name), attending(module(name), form, backend), given)
    assert not got[0][:, :, :4].any() and not got[1][:, :, :4].any()
    assert all(x.isfinite().all() for x in got)


@pytest.mark.parametrize(("name", "form", "backend"), ways(*THREE))
def test_nan_stays_where_it_is_used(name: str, form: str, backend: str) -> None:
    """B40: a row of q that is NaN gives NaN, and the other rows are as they were."""
    call = attending(module(name), form, backend)
    q, k, v, _ = rows(Sizes(20, 20))
    plain = call(q, k, v)
    q[:, 0, 5] = math.nan
    o = call(q, k, v)
    assert o[:, 0, 5].isnan().all()
    o[:, 0, 5] = plain[:, 0, 5]
    assert torch.equal(o, plain)
    q[:] = math.nan
    assert call(q, k, v).isnan().all()


@pytest.mark.parametrize(("name", "form", "backend"), ways("softmax"))
def test_nan_of_a_key_reaches_the_rows_that_see_it(name: str, form: str, backend: str) -> None:
    """B40: a key that is NaN is seen by all later rows and by no earlier one."""
    call = attending(module(name), form, backend)
    q, k, v, _ = rows(Sizes(20, 20))
    plain = call(q, k, v)
    k[:, :, 12] = math.nan
    o = call(q, k, v)
    assert o[:, :, 12:].isnan().all() and torch.equal(o[:, :, :12], plain[:, :, :12])


# log decays of the heads 0 and 1
REGIMES = {
    "hardly any": "1 - 2^(-12 - h)",
    "one head keeps": "where(h == 0, 1, exp(-1))",
    "halves": "exp(-0.7 - 0.0 * h)",
    "forgets": "exp(-10 - h)",
    "at once or never": "exp(-20 * h)",
    "below all numbers": "exp(-200 - h)",
}


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("form", ALL)
def test_decays_of_any_strength(form: str, backend: str, regime: str) -> None:
    """B26: a strong decay hides faults of the state, a weak one those of the range."""
    made = of_text(
        "attention a {\n similarity = q @ k\n mask = causal\n align = lower_right\n"
        f" chunk = 16\n normalizer = off\n decay = {REGIMES[regime]}\n}}\n"
    )
    given = rows(Sizes(19, 19))
    near(run(attending(made, form, backend), *given), truth(made, *given))


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("form", ALL)
def test_a_decay_of_one_is_none(form: str, backend: str) -> None:
    """B14: where a head does not forget, it gives what no decay gives."""
    clauses = " similarity = q @ k\n mask = causal\n align = lower_right\n normalizer = off\n"
    plain = of_text(f"attention a {{\n{clauses}}}\n")
    kept = of_text(f"attention a {{\n{clauses} decay = exp(-3 * h)\n}}\n")
    given = rows(Sizes(36, 36))
    got, wanted = (run(attending(made, form, backend), *given) for made in (kept, plain))
    near([x[:, 0] for x in got], [x[:, 0] for x in wanted], 2e-7)
    assert (got[0][:, 1] - wanted[0][:, 1]).abs().max() > 0.1


def plain_torch(name: str, dtype: torch.dtype, q, k, v):
    """The mathematics in torch's own operations of a dtype."""
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
    if name == "softmax":
        scores = (q @ k.mT) / math.sqrt(q.shape[3])
        return scores.masked_fill(~seen, -math.inf).softmax(-1) @ v
    if name == "linear":
        q, k = (torch.nn.functional.elu(x) + 1 for x in (q, k))
        weight = (q @ k.mT).masked_fill(~seen, 0)
        return weight @ v / weight.sum(-1, keepdim=True)
    steps = (torch.arange(q.shape[2])[:, None] - torch.arange(k.shape[2])).clamp(min=0)
    fade = (1 - 2.0 ** (-5 - torch.arange(q.shape[1])))[:, None, None] ** steps
    return ((q @ k.mT) * fade.to(dtype)).masked_fill(~seen, 0) @ v


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("name", "form", "backend"), ways(*THREE))
def test_16_bits(name: str, form: str, backend: str, dtype: torch.dtype) -> None:
    """B72, B23: the error is at most twice that of plain torch, by the same numbers in float64."""
    made = module(name)
    given = rows(Sizes(36, 36, 16, 8, H=1, G=1), dtype)
    got = run(attending(made, form, backend), *given)
    assert all(x.dtype is dtype for x in got)
    plain = run(lambda *x: plain_torch(name, dtype, *x), *given)
    for what, x, y, z in zip(("o", "dq", "dk", "dv"), got, plain, truth(made, *given), strict=True):
        error, allowed = ((a.double() - z).norm() / z.norm() for a in (x, y))
        assert error <= 2 * allowed, (what, error.item(), allowed.item())


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("name", "form", "backend"), ways("linear", "softmax"))
def test_pieces_in_16_bits(name: str, form: str, backend: str, dtype: torch.dtype) -> None:
    """B22, B06: 5 tokens, then 3, then 1; the sums stay in float32."""
    made = module(name)
    q, k, v, _ = rows(Sizes(9, 9), dtype)
    state, outs = None, []
    for first, past in ((0, 5), (5, 8), (8, 9)):
        o, state = made.attention(
            *(x[:, :, first:past] for x in (q, k, v)),
            form=form, backend=backend, initial_state=state, return_state=True,
        )  # fmt: skip
        outs.append(o)
    kept = dtype if name == "softmax" else torch.float32
    assert all(x.dtype is kept for x in held(state))
    wanted = made.reference(q.double(), k.double(), v.double())
    near([torch.cat(outs, 2)], [wanted], 2e-2 if dtype is torch.bfloat16 else 2e-3)


@pytest.mark.parametrize(("name", "form", "backend"), ways(*THREE))
def test_autocast(name: str, form: str, backend: str) -> None:
    """q, k and v are cast, nothing else is: the sums stay in float32, gradients in their dtypes."""
    made = module(name)
    q, k, v, do = rows(Sizes(20, 20))
    given = leaves(q, k, v)
    with torch.autocast("cpu", torch.bfloat16):
        o, state = made.attention(*given, form=form, backend=backend, return_state=True)
    o.backward(do.bfloat16())
    cast = [x.bfloat16() for x in (q, k, v, do)]
    same = run(attending(made, form, backend), *cast)
    assert o.dtype is torch.bfloat16 and torch.equal(o, same[0])
    assert all(x.grad.dtype is torch.float32 for x in given)
    near([x.grad for x in given], same[1:], 1e-6)
    if name != "softmax":
        assert all(x.dtype is torch.float32 for x in held(state))


@pytest.mark.parametrize(("name", "form", "backend"), ways(*THREE))
def test_float64_takes_torch(name: str, form: str, backend: str) -> None:
    given = rows(Sizes(70, 70), torch.float64)
    made = module(name)
    if backend == "triton":
        with pytest.raises(TypeError, match="float64"):
            attending(made, form, backend)(*given[:3])
    got = run(lambda *x: made.attention(*x, form=form), *given)
    near(got, truth(made, *given), 1e-12)


@pytest.mark.parametrize("backend", backends())
def test_padding_neither_counts_nor_learns(backend: str) -> None:
    """B20, B45: three pads before one token; phi(0) = 1 adds nothing to the sum."""
    made = of_text(
        "attention a {\n similarity = exp(q @ k)\n mask = causal and j >= 3\n"
        " align = lower_right\n normalizer = on\n}\n"
    )
    call = attending(made, "parallel", backend)
    got = run(call, *(column(*x) for x in ([0] * 4, [0] * 4, [0, 0, 0, 1], [1] * 4)))
    assert got[0].flatten().tolist() == [0, 0, 0, 1]
    for x in (got[2], got[3]):
        assert not x[:, :, :3].any()
    # whatever lies at the pads, be it NaN, is as if it were not there
    q, k, v, do = rows(Sizes(12, 12))
    wanted = run(call, q, k, v, do)
    k[:, :, :3], v[:, :, :3] = math.nan, math.inf
    assert all(torch.equal(x, y) for x, y in zip(run(call, q, k, v, do), wanted, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("backend", backends())
def test_masks_combine_without_adding_up(backend: str, dtype: torch.dtype) -> None:
    """B41: causal, a window and padding together are one mask, and a row may be empty."""
    clauses = " similarity = exp(q @ k)\n align = lower_right\n normalizer = on\n"
    many = of_text(f"attention a {{\n{clauses} mask = causal and i - j < 2 and j < 3\n}}\n")
    v = column(1, 2, 4, 8, 16, dtype=dtype)
    zero = torch.zeros_like(v)
    got = run(attending(many, "parallel", backend), zero, zero, v, torch.ones_like(v))
    assert got[0].flatten().tolist() == [1, 1.5, 3, 4, 0]
    assert all(x.isfinite().all() for x in got) and not got[3][:, :, 3:].any()
    assert got[3].flatten().tolist() == [1.5, 1, 1.5, 0, 0]


@pytest.mark.parametrize("L", [419, 83])
def test_lengths_that_nothing_divides(L: int) -> None:
    """B34."""
    for name in THREE:
        made = module(name)
        given = rows(Sizes(L, L, H=1, G=1))
        for form in made.FORMS:
            right(made, attending(made, form, "torch"), given)


def test_the_comparisons_see_nan() -> None:
    """B27: NaN, infinity and another shape are errors of any bound."""
    x = torch.ones(2, 3)
    near([x], [x.double()])
    for wrong in (x * math.nan, x * math.inf, x[:1], x[:, :1], x + 1e-3):
        for pair in ((wrong, x), (x, wrong)):
            with pytest.raises(AssertionError):
                near([pair[0]], [pair[1]])
    with pytest.raises(AssertionError):
        near([x * math.nan], [x * math.nan])
