from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnc.ir.expr import Call, Expr, Number, call, walk
from attnc.ir.numeric import Env
from attnc.ir.ops import Op
from attnc.passes.differentiate import NotElementwise, differentiate
from attnc.passes.simplify import simplify
from tests.passes.expressions import K, Q, X, Y, at, environment, parse, regular, scalars, value

STEP = 1e-6


def steep(expr: Expr, x: float) -> bool:
    """Is there a root of exactly 0, where the slope is infinite?"""
    roots = (n for n in walk(expr) if isinstance(n, Call) and n.op in (Op.SQRT, Op.POW))
    return any(at(root.args[0], x) == 0 for root in roots)


@settings(max_examples=300, deadline=None)
@given(scalars(), st.sampled_from((-1.73, -0.31, 0.43, 1.37)))
def test_derivative_equals_finite_difference(expr: Expr, x: float) -> None:
    if not regular(expr, x) or steep(expr, x):
        return
    slopes = [(at(expr, x + d) - at(expr, x - d)) / (2 * d) for d in (STEP, 2 * STEP)]
    wild = not all(map(math.isfinite, slopes)) or abs(slopes[0]) > 1e4
    # a kink or a jump between the two points has no derivative to compare
    if wild or abs(slopes[0] - slopes[1]) > 1e-4 * (1 + abs(slopes[0])):
        return
    sides = [abs(at(expr, x + s * STEP) - at(expr, x)) / STEP for s in (1, -1)]
    if abs(sides[0] - sides[1]) > 1e-3 * (1 + sides[0]):
        return
    assert at(differentiate(expr, X), x) == pytest.approx(slopes[0], rel=1e-3, abs=1e-3)


@settings(max_examples=100, deadline=None)
@given(scalars())
def test_derivatives_are_simplified(expr: Expr) -> None:
    for node in walk(differentiate(expr, X)):
        if isinstance(node, Call) and node.op in (Op.MUL, Op.ADD):
            neutral = Number(1 if node.op is Op.MUL else 0)
            assert neutral not in node.args
            assert node.op is not Op.MUL or Number(0) not in node.args


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x", "1"), ("y", "0"), ("3 * x", "3"), ("x^2", "2 * x"), ("x^1", "1"), ("x^0", "0"),
        ("x^3", "3 * x^2"), ("x * x + y", "x + x"), ("exp(x)", "exp(x)"),
        ("relu(x)", "where(x > 0, 1, 0)"),
        ("where(x < 0, 0, x)", "where(x < 0, 0, 1)"), ("floor(x)", "0"), ("sigmoid(y)", "0"),
    ],
)  # fmt: skip
def test_known_derivatives(text: str, wanted: str) -> None:
    assert differentiate(parse(text), X) == parse(wanted)


@pytest.mark.parametrize(
    ("text", "x", "wanted"),
    [
        # PyTorch's values at kinks and ties
        ("relu(x)", 0.0, 0.0), ("abs(x)", 0.0, 0.0), ("max(x, 0)", 0.0, 0.5),
        ("min(x, 0)", 0.0, 0.5),
        ("clamp(x, 0, 1)", 0.0, 1.0), ("clamp(x, 0, 1)", 1.0, 1.0), ("elu(x) + 1", 0.0, 1.0),
        ("x^2", 0.0, 0.0), ("x^y", 0.0, 0.0), ("where(x > 0, log(x), 0)", -1.0, 0.0),
        ("where(x > 0, sqrt(x), 0)", 0.0, 0.0),
    ],
)  # fmt: skip
def test_at_kinks(text: str, x: float, wanted: float) -> None:
    for expr in (parse(text), simplify(parse(text))):
        assert at(differentiate(expr, X), x, 2.0) == wanted


def test_power_by_its_exponent() -> None:
    slope = differentiate(parse("x^y"), Y)
    assert at(slope, 0.0, 2.0) == 0
    assert at(slope, 2.0, 3.0) == pytest.approx(8 * math.log(2))
    assert at(differentiate(parse("x^y"), X), 0.0, 0.0) == 0


def test_by_a_subexpression() -> None:
    dot = call(Op.DOT, Q, K)
    assert differentiate(parse("exp(q @ k)"), dot) == parse("exp(q @ k)")
    assert differentiate(parse("(q @ k)^2 / 2"), dot) == dot


@pytest.mark.parametrize("text", ["elu(k) + 1", "exp(2 * k)", "k * sigmoid(k)", "(k - 1)^3"])
def test_by_a_row(text: str) -> None:
    expr, env = simplify(parse(text)), environment()
    moved = [
        Env(env.dims, env.indices, {n: r + s * STEP for n, r in env.rows.items()}, env.tensors)
        for s in (1, -1)
    ]
    slope = (value(expr, moved[0]) - value(expr, moved[1])) / (2 * STEP)
    np.testing.assert_allclose(value(differentiate(expr, K), env), slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("text", ["k / norm(k)", "softmax(k)", "concat(k, 1)", "sum(k)"])
def test_rows_that_mix_are_refused(text: str) -> None:
    with pytest.raises(NotElementwise):
        differentiate(parse(text), K)
