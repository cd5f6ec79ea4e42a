"""A sequence in pieces, the state handed from form to form, against one call."""

import itertools

import pytest
import torch

from tests.modules.made import SPECS, Sizes, backends, held, leaves, module, near, rows, truth, ways

FORMING = ("linear", "retention", "forgetful", "softmax", "alibi", "softmax_window", "sums")
STATEFUL = ("linear", "normalized_retention", "retention")
# one token, a few, one less than a chunk of 16, a chunk, one more
PIECES = ((1, 3, 15, 2), (16, 1, 4), (17, 3, 1))


def in_pieces(made, calls, q, k, v, pieces):
    """o and the last state; `calls` are (form, backend) in turn, None is `step`."""
    state, outs, first = None, [], 0
    for length, call in zip(pieces, itertools.cycle(calls), strict=False):
        part = [x[:, :, first : first + length] for x in (q, k, v)]
        if call is None and length == 1 and state is not None:
            o, state = made.step(*(x[:, :, 0] for x in part), state)
            outs.append(o[:, :, None])
        else:
            form, backend = call or (made.FORMS[0], "torch")
            o, state = made.attention(
                *part, form=form, backend=backend, initial_state=state, return_state=True
            )
            outs.append(o)
        first += length
        assert state.length == first
    return torch.cat(outs, 2), state


def mixture(made, backend, shift):
    """Every form in turn, from another one on at each shift, and `step` where it may be."""
    calls = [(form, backend) for form in made.FORMS]
    return [*calls[shift:], *calls[:shift], None]


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("shift", range(3))
@pytest.mark.parametrize("name", FORMING)
def test_pieces_equal_one_call(name: str, backend: str, shift: int) -> None:
    """B06: values and gradients, every form after every other."""
    made, pieces = module(name), PIECES[shift]
    n = Sizes(sum(pieces), sum(pieces))
    q, k, v, do = rows(n, seed=shift)
    given = leaves(q, k, v)
    o, _ = in_pieces(made, mixture(made, backend, shift % len(made.FORMS)), *given, pieces)
    near([o, *torch.autograd.grad(o, given, do)], truth(made, q, k, v, do))


@pytest.mark.parametrize("name", [name for name in SPECS if "of_all" not in name])
def test_every_split(name: str) -> None:
    """B06, B03: two calls, cut at every place, every pair of forms."""
    made = module(name)
    q, k, v, _ = rows(Sizes(12, 12), torch.float64)
    wanted = made.reference(q, k, v)
    for cut, *forms in itertools.product(range(13), made.FORMS, made.FORMS):
        calls = [(form, "torch") for form in forms]
        o, _ = in_pieces(made, calls, q, k, v, (cut, 12 - cut))
        near([o], [wanted], 1e-10)


@pytest.mark.parametrize(("name", "form", "backend"), ways("linear_of_all"))
def test_keys_add_up_without_an_order(name: str, form: str, backend: str) -> None:
    """Where every row sees every key, the rows of a call see all keys so far."""
    made = module(name)
    q, k, v, _ = rows(Sizes(40, 40))
    wanted = made.reference(q[:, :, 33:].double(), k.double(), v.double())
    _, state = made.attention(
        *(x[:, :, :33] for x in (q, k, v)), form=form, backend=backend, return_state=True
    )
    o = made.attention(
        *(x[:, :, 33:] for x in (q, k, v)), form=form, backend=backend, initial_state=state
    )
    near([o], [wanted])


def sums(made, L: int, dtype: torch.dtype):
    """A state of an earlier sequence of 5 tokens: its tensors, of two float64 leaves or one."""
    q, k, v, _ = rows(Sizes(5, 5), torch.float64, seed=3)
    state = made.reference(q, k, v, return_state=True)[1]
    return [x.to(dtype) for x in (state.S, state.z) if x is not None]


def continued(made, tensors, call, q, k, v):
    S, z = (*tensors, None)[:2]
    state = made.State(S=S, z=z, length=5)
    o, state = call(q, k, v, initial_state=state, return_state=True)
    return [o, *(x for x in (state.S, state.z) if x is not None)]


@pytest.mark.parametrize("which", ["state", "both"])
@pytest.mark.parametrize(("name", "form", "backend"), ways(*STATEFUL))
def test_the_state_has_gradients(name: str, form: str, backend: str, which: str) -> None:
    """B12: the last state alone is in the loss, then both; the first state has a gradient too."""
    made = module(name)

    def gradients(call, dtype, L):
        q, k, v, do = rows(Sizes(L, L), dtype, seed=L)
        leaf = leaves(q, k, v, *sums(made, L, dtype))
        o, *ends = continued(made, leaf[3:], call, *leaf[:3])
        loss = sum(
            (x * torch.linspace(-1, 2, x.numel(), dtype=x.dtype).view_as(x)).sum() for x in ends
        )
        if which == "both":
            loss = loss + (o * do).sum()
        found = torch.autograd.grad(loss, leaf, allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for x, g in zip(leaf, found, strict=True)]

    for L in (1, 2, 3, 16, 17):
        got = gradients(
            lambda *x, **y: made.attention(*x, form=form, backend=backend, **y), torch.float32, L
        )
        near(got, gradients(made.reference, torch.float64, L))
        if which == "state":
            assert not got[0].any()


def test_the_gradient_of_one_step_is_the_decay() -> None:
    """B12: at L = 1 what reaches the first state is the decay times what comes from the last."""
    made = module("retention")
    q, k, v, _ = rows(Sizes(1, 1))
    for form, backend in itertools.product(made.FORMS, backends()):
        (first,) = leaves(*sums(made, 1, torch.float32))
        end = continued(
            made,
            [first],
            lambda *x, **y: made.attention(*x, form=form, backend=backend, **y),  # noqa: B023
            q,
            k,
            v,
        )[1]
        dend = torch.randn_like(end)
        (got,) = torch.autograd.grad(end, first, dend)
        decay = 1 - 2.0 ** (-5 - torch.arange(2))
        near([got], [decay[:, None, None] * dend], 1e-6)


@pytest.mark.parametrize(("name", "form", "backend"), ways("linear", "retention"))
def test_no_state_and_a_state_of_zeros(name: str, form: str, backend: str) -> None:
    """B22: None equals zeros; a state of numbers has its effect; another shape is refused."""
    made = module(name)
    n = Sizes(8, 8, B=2, H=4, G=4)
    q, k, v, _ = rows(n)
    way = {"form": form, "backend": backend}
    plain = made.attention(q, k, v, **way)
    zeros = made.init_state(2, heads=4, d_k=5, d_v=3)
    assert zeros.S.shape == (2, 4, 5, 3) and zeros.S.dtype is torch.float32
    near([made.attention(q, k, v, initial_state=zeros, **way)], [plain], 1e-6)
    state = made.State(
        S=torch.randn(2, 4, 5, 3), z=None if zeros.z is None else torch.rand(2, 4, 5), length=3
    )
    bf16 = [x.bfloat16() for x in (q, k, v)]
    o = made.attention(*bf16, initial_state=state, **way)
    assert o.dtype is torch.bfloat16
    wanted = made.reference(*(x.double() for x in bf16), initial_state=state)
    near([o], [wanted], 2e-2)
    assert (o - plain).abs().max() > 0.1
    turned = made.State(S=state.S.mT.contiguous(), z=state.z, length=3)
    with pytest.raises(ValueError, match=r"initial_state\.S"):
        made.attention(q, k, v, initial_state=turned, **way)


@pytest.mark.parametrize(("name", "form", "backend"), ways("sums"))
def test_the_state_is_wider_than_float16(name: str, form: str, backend: str) -> None:
    """2000 writes of 50 are 100000, more than float16 has; a row that reads a hundredth of it."""
    count = 100 if (form, backend) == ("recurrent", "triton") else 2000
    made, k = module(name), torch.ones(1, 1, count, 1).half()
    q, v = torch.full((1, 1, 2, 1), 0.01).half(), torch.full_like(k, 100_000 / count)
    way = {"form": form, "backend": backend}
    _, state = made.attention(q, k, v, return_state=True, **way)
    assert state.S.dtype is torch.float32 and state.S.item() == 100_000
    o = made.attention(q, k[:, :, :2], v[:, :, :2], initial_state=state, **way)
    near(
        [o],
        [made.reference(*(x.double() for x in (q, k[:, :, :2], v[:, :, :2])), initial_state=state)],
        2e-3,
    )


@pytest.mark.parametrize(("name", "form", "backend"), ways("sums"))
def test_the_gradient_of_the_state_is_wider_than_float16(
    name: str, form: str, backend: str
) -> None:
    """The first value is read 2000 times with a weight of 50."""
    if (form, backend) == ("recurrent", "triton"):
        pytest.skip("2000 steps of the interpreter")
    made, count = module(name), 2000
    q, k, v = torch.full((1, 1, count, 1), 50.0).half(), *torch.ones(2, 1, 1, count, 1).half()
    k *= 0.01
    v.requires_grad_()
    (dv,) = torch.autograd.grad(made.attention(q, k, v, form=form, backend=backend).sum(), v)
    # each row adds 50 to the gradient of the state, 100000 in all
    near([dv[:, :, 0].float() / 1000], [torch.full((1, 1, 1), k[0, 0, 0, 0].item() * 100)], 2e-3)


@pytest.mark.parametrize(("name", "form", "backend"), ways("linear", "softmax"))
def test_decoding_keeps_the_denominator(name: str, form: str, backend: str) -> None:
    """B03: q = k = 1, v = 1 then 3; the second token sees their mean."""
    made, one = module(name), torch.ones(1, 1, 1, 1)
    _, state = made.attention(one, one, one, form=form, backend=backend, return_state=True)
    o = made.attention(one, one, 3 * one, form=form, backend=backend, initial_state=state)
    assert o.item() == pytest.approx(2, rel=1e-6)
    o, _ = made.step(one[:, :, 0], one[:, :, 0], 3 * one[:, :, 0], state)
    assert o.item() == pytest.approx(2, rel=1e-6)


@pytest.mark.parametrize("name", ["linear", "softmax", "alibi", "retention"])
def test_two_continuations_of_one_state(name: str) -> None:
    """B33: neither changes the other, nor the state."""
    made = module(name)
    q, k, v, _ = rows(Sizes(9, 9))
    with torch.no_grad():
        _, state = made.attention(
            *(x[:, :, :5] for x in (q, k, v)), backend="torch", return_state=True
        )
        before = [x.clone() for x in held(state)]
        rest = [x[:, :, 5:] for x in (q, k, v)]
        calls = [
            lambda a, b, c: made.attention(a, b, c, initial_state=state, return_state=True)
            for _ in range(2)
        ]
        first, ended = calls[0](*rest)
        calls[1](rest[0], rest[1] + 1, rest[2] + 1)  # another continuation in between
        again, _ = calls[0](*rest)
    assert torch.equal(first, again) and ended.length == 9 and state.length == 5
    for x, y in zip(before, held(state), strict=True):
        assert torch.equal(x, y)
    near([first], [made.reference(q, k, v)[:, :, 5:]])


@pytest.mark.parametrize(("name", "form", "backend"), ways("linear", "softmax"))
def test_calls_share_nothing(name: str, form: str, backend: str) -> None:
    """B33: the same result before and after calls with a state and of other batches."""
    made = module(name)
    q, k, v, _ = rows(Sizes(7, 7))
    other = rows(Sizes(9, 9, B=3), seed=5)[:3]
    way = {"form": form, "backend": backend}
    first = made.attention(q, k, v, **way)
    _, state = made.attention(*other, return_state=True, **way)
    made.attention(*other, initial_state=state, **way)
    assert torch.equal(first, made.attention(q, k, v, **way))
    assert torch.equal(first, made.attention(q, k, v, initial_state=None, **way))
