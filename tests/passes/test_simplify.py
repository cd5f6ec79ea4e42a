from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnc.ir.expr import Call, Expr, Number, call, walk
from attnc.ir.ops import Op
from attnc.passes.simplify import simplify
from tests.passes.expressions import K, X, at, environment, parse, regular, scalars, value


@settings(max_examples=400, deadline=None)
@given(scalars(), st.sampled_from((-1.7, -0.3, 0.4, 2.2)), st.sampled_from((-0.8, 0.6, 1.9)))
def test_simplified_equals_the_original(expr: Expr, x: float, y: float) -> None:
    # the better form may be finite where the original overflows or is 0 * inf
    if regular(expr, x, y):
        assert at(simplify(expr), x, y) == pytest.approx(at(expr, x, y), rel=1e-7, abs=1e-7)


@settings(max_examples=100, deadline=None)
@given(scalars())
def test_simplifying_again_changes_nothing(expr: Expr) -> None:
    once = simplify(expr)
    assert simplify(once) == once


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x + 0", "x"), ("0 + x", "x"), ("x - 0", "x"), ("0 - x", "-x"), ("x * 1", "x"),
        ("x / 1", "x"), ("x * 0", "0"), ("-(-x)", "x"), ("x^1", "x"), ("x^0", "1"),
        ("x^0.5", "sqrt(x)"),
        ("2 * 3 + x", "6 + x"), ("exp(x) * exp(y)", "exp(x + y)"),
        ("exp(x) / exp(y)", "exp(x - y)"),
        ("exp(x)^2", "exp(2 * x)"), ("log(exp(x))", "x"), ("log(sigmoid(x))", "log_sigmoid(x)"),
        ("1 - sigmoid(x)", "sigmoid(-x)"), ("1 / (1 + exp(-x))", "sigmoid(x)"),
        ("log(1 + exp(x))", "softplus(x)"), ("exp(log(abs(x) + 2))", "abs(x) + 2"),
        ("elu(x) + 1", "where(x >= 0, x + 1, exp(min(x, 0)))"),
        ("1 + elu(x)", "where(x >= 0, x + 1, exp(min(x, 0)))"),
        ("where(1 < 2, x, y)", "x"), ("x + -1 * y", "x - y"), ("relu(exp(x))", "exp(x)"),
    ],
)  # fmt: skip
def test_rules(text: str, wanted: str) -> None:
    assert simplify(parse(text)) == parse(wanted)


UNEQUAL = (
    call(Op.EXP, call(Op.LOG, X)),
    call(Op.DIV, X, 0),
    call(Op.LOG, 0),
    call(Op.DIV, 0, X),
    call(Op.SQRT, -1),
    call(Op.SUB, X, X),
)


@pytest.mark.parametrize("expr", UNEQUAL, ids=lambda e: e.op.name)
def test_what_is_not_equal_everywhere_stays(expr: Expr) -> None:
    assert simplify(expr) == expr


def test_elu_plus_one_never_rounds_to_zero() -> None:
    better = simplify(parse("elu(x) + 1"))
    assert at(better, -50.0) == pytest.approx(math.exp(-50), rel=1e-14)
    assert at(better, 0.0) == 1


def test_rows_stay_rows() -> None:
    for text in ("k * 0", "k^0", "0 * k + k"):
        assert simplify(parse(text)).type.shape == K.type.shape


def test_the_unit_row_stays_recognizable() -> None:
    """x / norm(x) has a value at the zero row: it must not be taken apart."""
    expr = parse("(-k) / norm(-k)")
    found = [n for n in walk(simplify(expr)) if isinstance(n, Call) and n.op is Op.DIV]
    assert any(n.args[0] == n.args[1].args[0] for n in found if isinstance(n.args[1], Call))
    env = environment()
    np.testing.assert_allclose(value(simplify(expr), env), value(expr, env))


def test_constants_keep_their_kind() -> None:
    assert simplify(parse("6 // 4")) == Number(1)
    assert isinstance(simplify(parse("7 % 4 + 1")).value, int)  # type: ignore[attr-defined]
