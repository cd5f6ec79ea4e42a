"""Faults that users of other libraries met with states and gates, each by its number."""

import itertools

import pytest
import torch

from tests.modules.made import ALL, CAUSAL, LINEAR, Sizes, backends, near, of_text, rows, run, truth

PRODUCT = "similarity = q @ k\nnormalizer = off\nchunk = 32\n"
WAYS = list(itertools.product(ALL, backends()))


def spec(clauses: str) -> str:
    return f"attention reported {{\n{clauses}{CAUSAL}}}\n"


@pytest.mark.parametrize(("form", "backend"), WAYS)
@pytest.mark.parametrize("similarity", [PRODUCT, LINEAR + "chunk = 32\n"])
def test_no_decay_is_a_decay_of_1(similarity: str, form: str, backend: str) -> None:
    """B11: outputs and gradients of a spec without a decay, and with gates of 0, are the same."""
    plain = of_text(spec(similarity))
    gated = of_text(spec(similarity + "input g : [B, H, S]\ndecay = exp(g)\n"))
    q, k, v, do = rows(Sizes(70, 70, 16, 16))
    way = {"form": form, "backend": backend}
    wanted = truth(plain, q, k, v, do)
    near(run(lambda *x: plain.attention(*x, **way), q, k, v, do), wanted)
    g = torch.zeros(1, 2, 70, requires_grad=True)
    near(run(lambda *x: gated.attention(*x, g=g, **way), q, k, v, do), wanted)


@pytest.mark.parametrize(("form", "backend"), WAYS)
@pytest.mark.parametrize("scale", ["1", "1 / sqrt(d_k)", "0.3"])
def test_scales(scale: str, form: str, backend: str) -> None:
    """B29: a factor of the weights is right in every form; the normalizer takes it out again."""
    q, k, v, do = rows(Sizes(20, 20, 16, 3))
    way = {"form": form, "backend": backend}
    scaled = of_text(spec(f"similarity = {scale} * (q @ k)\nnormalizer = off\n"))
    number = {"1": 1.0, "0.3": 0.3}.get(scale, 0.25)
    plain = truth(of_text(spec(PRODUCT)), q, k, v, do)
    got = run(lambda *x: scaled.attention(*x, **way), q, k, v, do)
    near(got, [number * x for x in plain])
    text = LINEAR.replace("= phi(q) @ phi(k)", f"= {scale} * (phi(q) @ phi(k))")
    near(
        run(lambda *x: of_text(spec(text)).attention(*x, **way), q, k, v, do),
        truth(of_text(spec(LINEAR)), q, k, v, do),
    )


@pytest.mark.parametrize(("form", "backend"), WAYS)
def test_a_gate_is_not_rounded(form: str, backend: str) -> None:
    """B31: beside bfloat16 rows a float32 gate stays what it is: sigmoid(0.5) in the state."""
    made = of_text(
        spec("input a : [B, H, S]\nsimilarity = q @ k\ndecay = sigmoid(a)\nnormalizer = off\n")
    )
    one = torch.ones(1, 1, 2, 1, dtype=torch.bfloat16)
    v = torch.tensor([1.0, 0.0], dtype=torch.bfloat16).view(1, 1, 2, 1)
    a = torch.full((1, 1, 2), 0.5)
    _, state = made.attention(one, one, v, a=a, form=form, backend=backend, return_state=True)
    assert state.S.dtype == torch.float32
    # the matrix units take k times its decay in bfloat16: one rounding a token, not one a step
    bound = 2.0**-8 if (form, backend) == ("chunkwise", "triton") else 1e-6
    assert state.S.item() == pytest.approx(0.62245935, rel=bound)
    zero = 0 * one[:, :, 0]
    _, after = made.step(zero, zero, zero, state, a=a[:, :, 0])
    assert (after.S / state.S).item() == pytest.approx(0.62245935, rel=1e-6)


@pytest.mark.parametrize(("form", "backend"), WAYS)
def test_2000_writes_in_float16(form: str, backend: str) -> None:
    """B59: the state of 2000 writes of 50 is 100000, more than float16 holds."""
    made = of_text(spec(PRODUCT.replace("32", "64")))
    one = torch.ones(1, 1, 2000, 1, dtype=torch.float16)
    _, state = made.attention(one, one, 50 * one, form=form, backend=backend, return_state=True)
    assert state.S.item() == 100000


@pytest.mark.parametrize(("form", "backend"), WAYS)
@pytest.mark.parametrize(("d_k", "d_v"), [(3, 5), (4, 4)])
def test_decoding_after_every_form(d_k: int, d_v: int, form: str, backend: str) -> None:
    """B32: what a form writes, `step` reads; square states do not hide a transposed one."""
    made = of_text(spec(PRODUCT))
    q, k, v, _ = rows(Sizes(37, 37, d_k, d_v))
    first = [x[:, :, :36] for x in (q, k, v)]
    _, state = made.attention(*first, form=form, backend=backend, return_state=True)
    assert state.S.shape == (1, 2, d_k, d_v)
    o, _ = made.step(*(x[:, :, 36] for x in (q, k, v)), state)
    near([o], [made.reference(q.double(), k.double(), v.double())[:, :, 36]])
