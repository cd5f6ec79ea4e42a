from __future__ import annotations

import numpy as np
import pytest

from attnc.ir.expr import call, substitute
from attnc.ir.ops import Op
from attnc.passes.differentiate import differentiate
from attnc.passes.logspace import at_most_zero, exponent_of, log_space
from attnc.passes.simplify import simplify
from tests.passes.expressions import X, at, environment, parse, value


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("exp(q @ k / sqrt(d_k))", "q @ k / sqrt(d_k)"),
        ("exp(q @ k) * exp(x)", "q @ k + x"),
        ("exp(q @ k)^2", "2 * (q @ k)"),
        ("exp(q @ k) / exp(k @ k)", "q @ k - k @ k"),
        ("sqrt(exp(q @ k))", "q @ k / 2"),
        ("exp(q @ k) * sigmoid(k @ u)", "q @ k + log_sigmoid(k @ u)"),
    ],
)
def test_exponents(text: str, wanted: str) -> None:
    assert exponent_of(parse(text)) == parse(wanted)


@pytest.mark.parametrize(
    "text",
    ["exp(q @ k)", "exp(q @ k) * relu(k @ u)", "2^(q @ k)", "3 * exp(q @ k) / (1 + exp(k @ u))",
     "exp(q @ k)^0.5 * norm(k)", "relu(q @ u) / abs(k @ u) * exp(q @ k)"],
)  # fmt: skip
def test_the_exponential_of_the_exponent_is_the_similarity(text: str) -> None:
    exponent, env = exponent_of(parse(text)), environment()
    assert exponent is not None
    np.testing.assert_allclose(np.exp(value(exponent, env)), value(parse(text), env), rtol=1e-9)


@pytest.mark.parametrize(
    "text",
    ["q @ k", "relu(q @ k)", "exp(q @ k) + 1", "exp(q @ k) * (k @ u)", "relu(k @ u)", "1",
     "exp(q @ k) * relu(q @ k)", "(q @ k)^2"],
)  # fmt: skip
def test_no_exponent(text: str) -> None:
    assert exponent_of(parse(text)) is None


def test_a_factor_of_zero_hides_the_pair_without_nan() -> None:
    exponent = exponent_of(parse("relu(x) * exp(y)"))
    assert exponent is not None
    assert at(exponent, -1.0) == -np.inf
    assert at(differentiate(exponent, X), -1.0) == 0
    assert at(differentiate(exponent, X), 2.0) == 0.5


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("exp(x)", "x"), ("exp(-softplus(x) * exp(y))", "-(softplus(x) * exp(y))"),
        ("sigmoid(x)", "log_sigmoid(x)"), ("sigmoid(x)^(1/16)", "log_sigmoid(x) / 16"),
        ("1 - sigmoid(x)", "log_sigmoid(-x)"),
        ("sigmoid(x) * sigmoid(y)", "log_sigmoid(x) + log_sigmoid(y)"),
        ("1 / (1 + exp(x))", "-softplus(x)"), ("1 - 2^(-5 - h)", "log(1 - 2^(-5 - h))"),
        ("max(sigmoid(x), 0.5)", "max(log_sigmoid(x), log(0.5))"),
    ],
)  # fmt: skip
def test_log_of_decays(text: str, wanted: str) -> None:
    assert log_space(parse(text)) == simplify(parse(wanted))


@pytest.mark.parametrize(
    "text",
    ["0.9", "sigmoid(x)", "exp(-exp(x))", "sigmoid(x)^0.3", "clamp(sigmoid(x), 0.2, 0.9)",
     "where(x > 0, 0.5, sigmoid(y))", "2^(-abs(x))", "sqrt(sigmoid(x))", "1 - 0.5 * sigmoid(x)"],
)  # fmt: skip
@pytest.mark.parametrize("x", [-2.0, 0.0, 1.5])
def test_log_space_is_the_logarithm(text: str, x: float) -> None:
    expr = parse(text)
    wanted = np.log(at(expr, x))
    assert at(log_space(expr), x) == pytest.approx(wanted, rel=1e-12)
    assert at(at_most_zero(log_space(expr)), x) == pytest.approx(wanted, rel=1e-12)


def test_strong_gates_do_not_underflow() -> None:
    assert at(log_space(parse("sigmoid(x)")), -1000.0) == -1000
    assert at(log_space(parse("exp(-exp(x))")), 8.0) == pytest.approx(-np.exp(8))


def test_log_decay_is_clamped_with_slope_one_at_zero() -> None:
    log = at_most_zero(log_space(parse("exp(x)")))
    assert [at(log, x) for x in (-1.0, 0.0, 1.0)] == [-1, 0, 0]
    assert [at(differentiate(log, X), x) for x in (-1.0, 0.0, 1.0)] == [1, 1, 0]
    assert substitute(log, {X: call(Op.NEG, X)}) != log
