"""Expressions in numpy, float64. Numbers are arrays over [B, H, L, S] (axes of size 1 broadcast),
rows have one more axis. Shares nothing with the printer: this is what texts are judged by."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnc.ir.expr import Call, Dim, Expr, Index, IndexName, Number, Row, RowName, Tensor
from attnc.ir.ops import Op, Shape
from attnc.ir.sizes import Size
from attnc.ir.types import Kind

Array = NDArray[Any]


@dataclass(frozen=True)
class Env:
    """Values of the leaves. `row` numbers the rows of the call ([L, 1]) while the index `i` is a
    position; S-axis tensors begin with token `start`, and `before` has the last ids before it."""

    dims: Mapping[str, int]
    indices: Mapping[IndexName, Array]
    rows: Mapping[RowName, Array] = field(default_factory=dict)
    tensors: Mapping[str, Array] = field(default_factory=dict)
    row: Array | None = None
    start: int = 0
    before: Mapping[str, Array] = field(default_factory=dict)


_erf: Callable[[Array], Array] = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _softmax(x: Array) -> Array:
    e: Array = np.exp(x - x.max(-1, keepdims=True))
    e /= e.sum(-1, keepdims=True)
    return e


def _rotate(x: Array, angle: Array) -> Array:
    half = angle.shape[-1]
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = np.cos(angle), np.sin(angle)
    return _concat(first * cos - second * sin, first * sin + second * cos, rest)


def _concat(*parts: Array) -> Array:
    shape = np.broadcast_shapes(*(p.shape[:-1] for p in parts))
    return np.concatenate([np.broadcast_to(p, (*shape, p.shape[-1])) for p in parts], -1)


def _outer(x: Array, y: Array) -> Array:
    product: Array = x[..., :, None] * y[..., None, :]
    return product.reshape(*product.shape[:-2], -1)


def _symmetric_power(x: Array, n: Array) -> Array:
    sets = list(combinations_with_replacement(range(x.shape[-1]), int(n)))
    often = [factorial(len(s)) / math.prod(factorial(s.count(e)) for e in set(s)) for s in sets]
    products: Array = x[..., np.array(sets)].prod(-1)
    return products * np.sqrt(often)


FUNCTIONS: dict[Op, Callable[..., Any]] = {
    Op.OR: np.logical_or,
    Op.AND: np.logical_and,
    Op.NOT: np.logical_not,
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.GT: np.greater,
    Op.GE: np.greater_equal,
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
    Op.ADD: np.add,
    Op.SUB: np.subtract,
    Op.MUL: np.multiply,
    Op.DIV: np.true_divide,
    Op.FLOORDIV: np.floor_divide,
    Op.MOD: np.mod,
    Op.DOT: lambda x, y: np.einsum("...d,...d->...", x, y),
    Op.NEG: np.negative,
    Op.POW: np.power,
    Op.EXP: np.exp,
    Op.LOG: np.log,
    Op.LOG2: np.log2,
    Op.SQRT: np.sqrt,
    Op.ABS: np.abs,
    Op.SIN: np.sin,
    Op.COS: np.cos,
    Op.TANH: np.tanh,
    Op.SIGMOID: _sigmoid,
    Op.LOG_SIGMOID: lambda x: -_softplus(-x),
    Op.RELU: lambda x: np.maximum(x, 0),
    Op.ELU: lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    Op.SILU: lambda x: x * _sigmoid(x),
    Op.GELU: lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
    Op.SOFTPLUS: _softplus,
    Op.ERF: _erf,
    Op.FLOOR: np.floor,
    Op.MIN: np.minimum,
    Op.MAX: np.maximum,
    Op.CLAMP: lambda x, low, high: np.minimum(np.maximum(x, low), high),
    Op.WHERE: np.where,
    Op.SUM: lambda x: x.sum(-1),
    Op.MEAN: lambda x: x.mean(-1),
    Op.AMAX: lambda x: x.max(-1),
    Op.NORM: lambda x: np.sqrt((x * x).sum(-1)),
    Op.SOFTMAX: _softmax,
    Op.SIZE: lambda x: np.asarray(x.shape[-1]),
    Op.CONCAT: _concat,
    Op.OUTER: _outer,
    Op.ROLL: lambda x, n: np.roll(x, int(n), -1),
    Op.SLICE: lambda x, start, stop, step: x[..., int(start) : int(stop) : int(step)],
    Op.ELEMENT: lambda x, n: x[..., int(n)],
    Op.RANGE: lambda n: np.arange(int(n)),
    Op.MATMUL: lambda w, x: np.einsum("...mn,...n->...m", w, x),
    Op.ROTATE: _rotate,
    Op.SYMMETRIC_POWER: _symmetric_power,
}

_ELEMENTWISE = (
    Shape.ARITHMETIC, Shape.DIVISION, Shape.POWER, Shape.ELEMENTWISE, Shape.COMPARISON,
    Shape.LOGICAL, Shape.CHOICE,
)  # fmt: skip


def evaluate(expr: Expr, env: Env) -> Array:
    """The value of an expression; over [B, H, L, S], and a row's own axis where it is a row."""
    with np.errstate(all="ignore"):
        return _evaluate(expr, env)


def size_value(size: Size, env: Env) -> int:
    return size.evaluate(env.dims)


def _evaluate(expr: Expr, env: Env) -> Array:
    match expr:
        case Number(value):
            return np.asarray(value)
        case Dim(size):
            return np.asarray(size_value(size, env))
        case Index(name):
            return env.indices[name]
        case Row(name):
            return env.rows[name]
        case Tensor():
            return _read(expr, env)
        # e^x below zero: 1 + (e^x - 1) would lose it
        case Call(Op.ADD, (Call(Op.ELU, (x,)), Number(1)) | (Number(1), Call(Op.ELU, (x,)))):
            inner: Array = np.asarray(_evaluate(x, env), np.float64)
            return np.where(inner > 0, inner + 1, np.exp(np.minimum(inner, 0)))
        case Call(Op.DIV, (x, Call(Op.NORM, (y,)))) if x == y:
            row: Array = np.asarray(_evaluate(x, env), np.float64)
            norm: Array = FUNCTIONS[Op.NORM](row)[..., None]
            return np.where(norm == 0, 0.0, row / norm)
        case Call(op):
            return _apply(op, expr, env)
    raise TypeError(f"no meaning for {type(expr).__name__}")


def _apply(op: Op, expr: Call, env: Env) -> Array:
    values = [_evaluate(a, env) for a in expr.args]
    if expr.type.kind is Kind.FLOAT:
        values = [np.asarray(v, np.float64) if v.dtype.kind in "iu" else v for v in values]
    if expr.type.shape and (op.info.shape in _ELEMENTWISE or op is Op.CONCAT):
        pairs = zip(expr.args, values, strict=True)
        values = [v if a.type.shape else v[..., None] for a, v in pairs]
    result: Array = FUNCTIONS[op](*values)
    if expr.type.kind is Kind.BOOL and _reads_row_of_keys(expr, env):
        position = env.indices[IndexName.QUERY]
        inside = (position >= env.start) & (position < env.dims["S"])
        result = result & (inside[..., None] if expr.type.shape else inside)
    return result.astype(np.int64) if op is Op.FLOOR and expr.type.kind is Kind.INT else result


def _reads_row_of_keys(expr: Call, env: Env) -> bool:
    """Does a comparison read a tensor over the keys at the row's position?"""
    if expr.op.info.shape is not Shape.COMPARISON:
        return False
    stack: list[Expr] = list(expr.args)
    while stack:
        node = stack.pop()
        stack.extend(node.children)
        if isinstance(node, Tensor):
            for axis, size in zip(node.axes, node.decl.dims, strict=True):
                if axis == Index(IndexName.QUERY) and size == Size.of("S"):
                    return True
    return False


def _read(expr: Tensor, env: Env) -> Array:
    values = env.tensors[expr.decl.name]
    if expr.runs:
        values = _runs(values, expr, env)
    elif values.dtype.kind == "f":
        values = values.astype(np.float64)
    own = [n for n, axis in enumerate(expr.axes) if axis is None]
    values = np.moveaxis(values, own, range(values.ndim - len(own), values.ndim))
    if len(own) == len(expr.axes):
        return values
    places = [
        _place(axis, size, env)
        for axis, size in zip(expr.axes, expr.decl.dims, strict=True)
        if axis is not None
    ]
    if 0 in values.shape[: len(places)]:
        shape = np.broadcast_shapes(*(p.shape for p in places))
        return np.zeros(shape + values.shape[len(places) :], values.dtype)
    places = [np.clip(p, 0, values.shape[n] - 1) for n, p in enumerate(places)]
    return values[tuple(places)]


def _place(axis: Expr, size: Size, env: Env) -> Array:
    match axis:
        case Index(IndexName.QUERY) if size == Size.of("L"):
            assert env.row is not None
            return env.row
        case Index(IndexName.HEAD) if size == Size.of("G"):
            return env.indices[IndexName.HEAD] // (env.dims["H"] // env.dims["G"])
        case Index(IndexName.QUERY | IndexName.KEY) if size == Size.of("S"):
            return _evaluate(axis, env) - env.start
    return _evaluate(axis, env).astype(np.int64)


def _runs(ids: Array, expr: Tensor, env: Env) -> Array:
    """How often the id has changed up to each token."""
    along = expr.decl.axis_of("S")
    assert along is not None
    ids = np.moveaxis(ids, along, -1)
    changed = np.zeros(ids.shape, np.int64)
    changed[..., 1:] = ids[..., 1:] != ids[..., :-1]
    if expr.decl.name in env.before and ids.shape[-1]:
        changed[..., 0] = ids[..., 0] != env.before[expr.decl.name]
    return np.moveaxis(changed.cumsum(-1), -1, along)
