from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnc.ir.expr import Expr, Index, IndexName
from attnc.ir.facts import Sign
from attnc.passes.intervals import Interval, bounds
from attnc.passes.knowledge import Knowledge
from attnc.passes.polynomials import Polynomial, polynomial_of
from attnc.passes.roots import Positivity, positivity
from attnc.passes.signs import sign_of
from tests.passes.expressions import K, Q, X, Y, at, environment, parse, regular, scalars, value


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("(elu(q) + 1) @ (elu(k) + 1)", Sign.POSITIVE), ("relu(q) @ relu(k)", Sign.NONNEGATIVE),
        ("q @ k", Sign.ANY), ("silu(q) @ silu(k)", Sign.ANY), ("tanh(q) @ tanh(k)", Sign.ANY),
        ("exp(q @ k)", Sign.POSITIVE), ("(q @ k)^2", Sign.NONNEGATIVE),
        ("(q @ k)^2 + 0.001", Sign.POSITIVE), ("(q @ k) * (q @ k)", Sign.NONNEGATIVE),
        ("1 + q @ k + (q @ k)^2 / 2", Sign.POSITIVE),
        ("1 + q @ k + (q @ k)^2 / 4", Sign.NONNEGATIVE),
        ("1 + q @ k + (q @ k)^2 / 4.001", Sign.ANY), ("1 + k @ q + (q @ k)^2 / 2", Sign.POSITIVE),
        ("1 + q @ k / sqrt(d_k) + (q @ k / sqrt(d_k))^2 / 2", Sign.POSITIVE),
        ("1 + q @ k / sqrt(d_k) + (q @ k)^2 / d_k / 2", Sign.POSITIVE),
        ("1 + q @ k / sqrt(d_k) + (q @ k)^2 / 2", Sign.ANY),
        ("(1 + q @ k)^3", Sign.ANY), ("(1 + relu(q) @ relu(k))^3", Sign.POSITIVE),
        ("1 - (relu(q) @ relu(k))", Sign.ANY), ("(q @ k)^4 - 2 * (q @ k)^2 + 1", Sign.NONNEGATIVE),
        ("taylor2(q) @ taylor2(k)", Sign.POSITIVE), ("hedgehog(q) @ hedgehog(k)", Sign.POSITIVE),
        ("dpfp1(q) @ dpfp1(k)", Sign.NONNEGATIVE), ("dpfp3(q) @ dpfp3(k)", Sign.NONNEGATIVE),
        ("(taylor2(q) @ taylor2(k)) * relu(k @ u)", Sign.NONNEGATIVE),
        ("concat(1, sqrt(2) * q, outer(q, q)) @ concat(1, sqrt(2) * k, outer(k, k))",
         Sign.NONNEGATIVE),
        ("outer(q, q) @ outer(k, k)", Sign.NONNEGATIVE),
        ("unit(q) @ unit(k) + 1", Sign.NONNEGATIVE),
        ("unit(q) @ unit(k) + 0.99", Sign.ANY), ("abs(q @ k) / (1 + exp(k @ u))", Sign.NONNEGATIVE),
        ("sigmoid(q @ k)", Sign.POSITIVE), ("(q @ k - k @ q) + 1", Sign.POSITIVE),
        ("softmax(q) @ softmax(k)", Sign.POSITIVE), ("where(i < j, exp(q @ k), 1)", Sign.POSITIVE),
        ("1 + (q @ k)^2 * (k @ u)^2", Sign.POSITIVE), ("(q @ k)^2 * (k @ u)", Sign.ANY),
    ],
)  # fmt: skip
def test_signs(text: str, sign: Sign) -> None:
    assert sign_of(parse(text)) is sign


def test_the_clauses_are_looked_through() -> None:
    rows: dict[Expr, Expr] = {Q: parse("relu(q)"), K: parse("exp(k)")}
    assert sign_of(parse("q @ k"), Knowledge(rows=rows)) is Sign.NONNEGATIVE
    # a clause that reads its own row is applied once
    doubled: dict[Expr, Expr] = {Q: parse("q - 1"), K: parse("k")}
    assert sign_of(parse("1 + q @ k"), Knowledge(rows=doubled)) is Sign.ANY


@settings(max_examples=300, deadline=None)
@given(scalars(), st.sampled_from((-1.7, -0.3, 0.4, 2.2)), st.sampled_from((-0.8, 0.6, 1.9)))
def test_values_lie_in_their_interval(expr: Expr, x: float, y: float) -> None:
    if not regular(expr, x, y):
        return
    known = {X: Interval.of(min(x, 0), max(x, 0)), Y: Interval.of(-1, 2)}
    for interval in (bounds(expr), bounds(expr, known)):
        found, slack = at(expr, x, y), 1e-9 * (1 + abs(at(expr, x, y)))
        assert interval.low - slack <= found <= interval.high + slack
        assert not (interval.positive and found < 0)


@pytest.mark.parametrize(
    "text", ["(q @ k)^2 - q @ k", "taylor2(q) @ taylor2(k)", "(q / 2) @ (k * 3) - (q @ k)^3",
             "concat(q, 1) @ concat(k, 2)", "outer(q, k) @ outer(k, q)"],
)  # fmt: skip
def test_polynomials_equal_what_they_came_from(text: str) -> None:
    expr, env = parse(text), environment()
    total = np.zeros(())
    for monomial, c in polynomial_of(expr).terms.items():
        factors = [value(atom, env) ** float(e) for atom, e in monomial]
        total = total + float(c) * np.prod(np.broadcast_arrays(*factors, 1.0), axis=0)
    np.testing.assert_allclose(total, value(expr, env), rtol=1e-9, atol=1e-9)


def test_roots_of_numbers_are_exact() -> None:
    for text in ("sqrt(2) * sqrt(2)", "(12^0.5)^2 / 6", "2^0.25 * 2^0.75"):
        assert polynomial_of(parse(text)).number == 2, text
    assert Polynomial.constant(Fraction(1, 3)).number == Fraction(1, 3)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 3)), max_size=3),
    st.sampled_from(((1,), (2, 1, 1), (5, -4, 1), (1, 0, 3))),
    st.sampled_from((1, -1, 2)),
    st.booleans(),
)
def test_positivity(
    roots: list[tuple[int, int]], extra: tuple[int, ...], lead: int, from_zero: bool
) -> None:
    """Products of known factors: the sign between the roots decides."""
    p = np.polynomial.Polynomial([lead]) * np.polynomial.Polynomial(extra)
    for root, multiplicity in roots:
        p = p * np.polynomial.Polynomial([-root, 1]) ** multiplicity
    places = np.arange(0 if from_zero else -5, 6, 0.25)
    values = p(places).round(6)
    smallest = values.min()
    wanted = (
        Positivity.NEGATIVE
        if smallest < 0
        else Positivity.NONNEGATIVE
        if smallest == 0
        else Positivity.POSITIVE
    )
    assert positivity([Fraction(round(c)) for c in p.coef], from_zero) is wanted


def test_heads_bound_the_index() -> None:
    known = {Index(IndexName.HEAD): Interval.of(0, 7)}
    found = bounds(parse("1 - 2^(-5 - h)"), known)
    assert (found.low, found.high) == (1 - 2**-5, 1 - 2**-12)
