"""Expressions for the tests of the passes: random ones, and values to evaluate them with."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attnc.ir.expr import (
    Dim,
    Expr,
    Index,
    IndexName,
    Number,
    Role,
    Row,
    RowName,
    Tensor,
    TensorDecl,
    call,
    walk,
)
from attnc.ir.numeric import Env, evaluate
from attnc.ir.ops import Op, Shape
from attnc.ir.sizes import Size
from attnc.ir.types import Kind
from attnc.passes.resolve import formula

SIZE = 3
D = Size.of("d_k")
Q, K = Row(RowName.Q, D), Row(RowName.K, D)
U = Tensor(TensorDecl("u", Role.PARAM, Kind.FLOAT, (D,)), (None,))
W = Tensor(TensorDecl("w", Role.BUFFER, Kind.FLOAT, (Size.of(4), D)), (None, None))
X = Tensor(TensorDecl("x", Role.INPUT, Kind.FLOAT, ()), ())
Y = Tensor(TensorDecl("y", Role.INPUT, Kind.FLOAT, ()), ())
BIAS_DECL = TensorDecl("bias", Role.PARAM, Kind.FLOAT, (Size.of("L"), Size.of("S")))
BIAS = Tensor(BIAS_DECL, (Index(IndexName.QUERY), Index(IndexName.KEY)))
NAMES = {
    "q": Q, "k": K, "u": U, "x": X, "y": Y, "bias": BIAS, "d_k": Dim(D),
    "i": Index(IndexName.QUERY), "j": Index(IndexName.KEY), "h": Index(IndexName.HEAD),
}  # fmt: skip


def parse(text: str) -> Expr:
    return formula(text, **NAMES)


def environment(seed: int = 0, size: int = SIZE) -> Env:
    """Normal rows of 4 queries and 5 keys for 2 batches and 2 heads."""
    random = np.random.default_rng(seed)
    return Env(
        dims={"d_k": size, "L": 4, "S": 5, "H": 2, "B": 2},
        indices={
            IndexName.QUERY: np.arange(4).reshape(1, 1, 4, 1),
            IndexName.KEY: np.arange(5).reshape(1, 1, 1, 5),
            IndexName.HEAD: np.arange(2).reshape(1, 2, 1, 1),
        },
        rows={
            RowName.Q: random.normal(size=(2, 2, 4, 1, size)),
            RowName.K: random.normal(size=(2, 2, 1, 5, size)),
        },
        tensors={
            "u": random.normal(size=size),
            "w": random.normal(size=(4, size)),
            "x": np.array(random.normal()),
            "y": np.array(random.normal()),
        },
    )


def value(expr: Expr, env: Env) -> np.ndarray:
    return np.asarray(evaluate(expr, env), np.float64)


def at(expr: Expr, x: float, y: float = 0.5) -> float:
    """The value for given numbers x and y."""
    env = Env(dims={"d_k": SIZE}, indices={}, tensors={"x": np.array(x), "y": np.array(y)})
    return float(value(expr, env))


def regular(expr: Expr, x: float, y: float = 0.5) -> bool:
    """Are all parts finite there, and none so large that rounding decides?"""
    parts = [at(part, x, y) for part in walk(expr)]
    return all(np.isfinite(part) and abs(part) < 1e8 for part in parts)


UNARY = tuple(
    op for op in Op if op.info.arity == 1 and op.info.shape in (Shape.ELEMENTWISE, Shape.ARITHMETIC)
)
BINARY = (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MIN, Op.MAX)


def scalars(max_leaves: int = 5) -> st.SearchStrategy[Expr]:
    """Elementwise expressions of the numbers x and y."""
    constants = st.sampled_from((0, 1, -1, 2, 3, 0.5, -2, 1.5)).map(Number)
    leaves = st.one_of(st.just(X), st.just(X), st.just(Y), constants)

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.one_of(
            st.tuples(st.sampled_from(UNARY), inner).map(lambda t: call(*t)),
            st.tuples(st.sampled_from(BINARY), inner, inner).map(lambda t: call(*t)),
            st.tuples(inner, st.sampled_from((0, 1, 2, 3, -1, 0.5))).map(
                lambda t: call(Op.POW, *t)
            ),
            st.tuples(inner, inner, inner, inner).map(
                lambda t: call(Op.WHERE, call(Op.LT, t[0], t[1]), t[2], t[3])
            ),
        )

    return st.recursive(leaves, grow, max_leaves=max_leaves)
