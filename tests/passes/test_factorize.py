from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnc.ir.expr import Expr, Number, call
from attnc.ir.facts import Factorized, NotFactorized, Side
from attnc.ir.ops import Op
from attnc.ir.sizes import Size
from attnc.passes.factorize import factorize
from attnc.passes.sides import side_of
from tests.passes.expressions import K, Q, U, W, environment, parse, value

D = Size.of("d_k")
SQUARE = D * (D + Size.of(1)) // Size.of(2)


def check(expr: Expr, size: int = 3) -> Factorized:
    """The rows are one-sided, and their product is the similarity."""
    found = factorize(expr)
    assert isinstance(found, Factorized), found
    assert side_of(found.phi) in (Side.QUERY, Side.CONSTANT)
    assert side_of(found.psi) in (Side.KEY, Side.CONSTANT)
    assert found.phi.type.shape == found.psi.type.shape
    env = environment(size=size)
    product = value(call(Op.DOT, found.phi, found.psi), env)
    wanted = np.broadcast_to(value(expr, env), np.broadcast_shapes(product.shape, (2, 2, 4, 5)))
    np.testing.assert_allclose(np.broadcast_to(product, wanted.shape), wanted, rtol=1e-9, atol=1e-9)
    assert found.size.evaluate({"d_k": size}) == value(found.phi, env).shape[-1]
    return found


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("q @ k", D), ("k @ q", D), ("-(q @ k)", D), ("(q @ k) / sqrt(d_k)", D),
        ("(elu(q) + 1) @ (elu(k) + 1)", D), ("exp(q @ u) * relu(k @ u) * (q @ k)", D),
        ("(q @ k) / (k @ k + 1)", D), ("(q * k) @ u", D), ("exp(q + k) @ u", D),
        ("exp(2 * q - k / 2) @ u", D), ("mean(q * k)", D), ("2 * (q @ k) - q @ k", D),
        ("exp(q @ u + k @ u)", Size.of(1)), ("1", Size.of(1)), ("k @ u", Size.of(1)),
        ("(q + k) @ u", Size.of(2)), ("2 * (q @ k) - q @ k + 3", D + Size.of(1)),
        ("(q @ k)^2", SQUARE),
        ("cos(i - j)", Size.of(2)), ("sin(q @ u + k @ u) * (q @ k)", D + D),
        ("q @ k - relu(q) @ relu(k)", D + D), ("roll(q + k, 1) @ u", Size.of(2)),
    ],
)  # fmt: skip
def test_factorized(text: str, size: Size) -> None:
    found = check(parse(text))
    assert found.size.evaluate({"d_k": 7}) == size.evaluate({"d_k": 7})


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_powers_use_symmetry(n: int, d: int) -> None:
    size = check(parse(f"(q @ k)^{n}"), d).size.evaluate({"d_k": d})
    assert size == round(np.prod([(d + m) / (m + 1) for m in range(n)]))


@pytest.mark.parametrize("d", [1, 3, 4])
def test_polynomials(d: int) -> None:
    assert check(parse("1 + q @ k + (q @ k)^2 / 2"), d).size.evaluate({"d_k": d}) == (
        1 + d + d * (d + 1) // 2
    )
    check(parse("(1 + q @ k / sqrt(d_k))^3"), d)
    check(parse("(q @ k + q @ u)^2 * (relu(q) @ relu(k))"), d)
    check(parse("(q @ k)^2 - 2 * (q @ k) + 1"), d)


@pytest.mark.parametrize(
    ("text", "phi", "psi"),
    [
        ("q @ k", "q", "k"),
        ("relu(q) @ relu(k) * sigmoid(k @ u)", "relu(q)", "sigmoid(k @ u) * relu(k)"),
        ("(q @ k) * h", "h * q", "k"),
        ("(q @ k) / (1 + q @ q)", "1 / (1 + q @ q) * q", "k"),
    ],
)
def test_key_factors_go_to_psi_all_others_to_phi(text: str, phi: str, psi: str) -> None:
    found = factorize(parse(text))
    assert isinstance(found, Factorized)
    env = environment()
    np.testing.assert_allclose(value(found.phi, env), value(parse(phi), env))
    np.testing.assert_allclose(value(found.psi, env), value(parse(psi), env))
    assert found.single_product


@pytest.mark.parametrize("text", ["(q @ k)^2", "q @ k + 1", "1", "(q @ k) * (relu(q) @ relu(k))"])
def test_no_single_product(text: str) -> None:
    assert not check(parse(text)).single_product


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("exp(q @ k)", "exp"), ("relu(q @ k)", "relu"), ("tanh(q + k) @ u", "tanh"),
        ("1 / (1 + q @ k)", "divides"), ("(q @ k)^-1", "power"), ("(q @ k)^0.5", "power"),
        ("(q @ k)^9", "exponent above"), ("(q @ k) * bias", "bias"),
        ("exp(-(q - k) @ (q - k))", "exp"),
        ("max(q @ u, k @ u)", "max"), ("where(i < j, q @ k, 0)", "where"), ("bias", "bias"),
    ],
)  # fmt: skip
def test_not_factorized_with_a_reason(text: str, word: str) -> None:
    found = factorize(parse(text))
    assert isinstance(found, NotFactorized)
    assert word in found.reason


def test_the_place_is_the_innermost_fault() -> None:
    found = factorize(parse("(q @ k) * (1 + exp(q @ k))"))
    assert isinstance(found, NotFactorized)
    assert found.span is not None
    assert found.span.text == "exp(q @ k)"


def test_a_matrix_is_linear() -> None:
    check(call(Op.DOT, call(Op.MATMUL, W, Q), call(Op.MATMUL, W, K)))
    row = call(Op.MATMUL, W, call(Op.ADD, Q, K))
    check(call(Op.DOT, row, call(Op.MATMUL, W, U)))


def rows() -> st.SearchStrategy[Expr]:
    leaves = st.sampled_from((Q, K, U))

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.one_of(
            st.tuples(st.sampled_from((Op.ADD, Op.SUB, Op.MUL)), inner, inner).map(
                lambda t: call(*t)
            ),
            inner.map(lambda x: call(Op.NEG, x)),
            inner.map(lambda x: call(Op.ROLL, x, 1)),
            inner.map(lambda x: call(Op.DIV, x, 2)),
        )

    return st.recursive(leaves, grow, max_leaves=3)


def similarities() -> st.SearchStrategy[Expr]:
    dots = st.tuples(rows(), rows()).map(lambda t: call(Op.DOT, *t))
    leaves = st.one_of(dots, dots, st.sampled_from((1, 2, -3, 0.5)).map(Number))

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.one_of(
            st.tuples(st.sampled_from((Op.ADD, Op.SUB, Op.MUL)), inner, inner).map(
                lambda t: call(*t)
            ),
            inner.map(lambda x: call(Op.POW, x, 2)),
        )

    return st.recursive(leaves, grow, max_leaves=3)


@settings(max_examples=150, deadline=None)
@given(similarities())
def test_random_polynomials(expr: Expr) -> None:
    found = factorize(expr)
    if isinstance(found, NotFactorized):
        assert "too long" in found.reason or "terms" in found.reason
        return
    env = environment(size=2)
    product, wanted = value(call(Op.DOT, found.phi, found.psi), env), value(expr, env)
    shape = np.broadcast_shapes(product.shape, wanted.shape)
    scale = 1 + np.abs(value(found.phi, env)).max() * np.abs(value(found.psi, env)).max()
    product, wanted = np.broadcast_to(product, shape), np.broadcast_to(wanted, shape)
    np.testing.assert_allclose(product, wanted, rtol=1e-9, atol=1e-9 * scale)
