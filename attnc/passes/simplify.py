"""Expr -> equal Expr, shorter and numerically better. Equality is that of mathematics.

`make` builds one call and applies the rules to it; `simplify` rebuilds a whole tree that way.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from attnc.ir.expr import Call, Dim, Expr, Index, Number, call, transform
from attnc.ir.ops import Op
from attnc.ir.types import Kind
from attnc.passes.constants import NotFinite, constant
from attnc.passes.intervals import bounds

Value = int | float


def simplify(expr: Expr) -> Expr:
    """The same value in a better form."""
    return transform(expr, lambda node: rewrite(node) if isinstance(node, Call) else node)


def make(op: Op, *args: Expr | Value, keep_shape: bool = True) -> Expr:
    """`op` applied to simplified arguments, simplified.

    Without `keep_shape` a row whose elements are all one number may become that number.
    """
    node = call(op, *args)
    return rewrite(node, keep_shape) if isinstance(node, Call) else node


def rewrite(node: Call, keep_shape: bool = True) -> Expr:
    """Apply the rules at the root; the arguments are simplified already."""
    better = _fold(node)
    if better is None and (rule := _RULES.get(node.op)) is not None:
        better = rule(*node.args)
    if better is None or (keep_shape and better.type.shape != node.type.shape):
        return node
    return better if better.span is not None else _with_span(better, node)


def number(expr: Expr) -> Value | None:
    """The value of a numeric constant, else None."""
    match expr:
        case Number(value) if not isinstance(value, bool):
            return value
    return None


def _with_span(expr: Expr, source: Expr) -> Expr:
    match expr:
        case Call(op, args):
            return call(op, *args, span=source.span)
        case Number(value):
            return Number(value, span=source.span)
    return expr


def _fold(node: Call) -> Expr | None:
    """The number that an operation on constants gives; None where it is no finite number."""
    if not all(isinstance(arg, Number) for arg in node.args):
        return None
    try:
        result = constant(node)
    except NotFinite:
        return None
    if result is None or not math.isfinite(result):
        return None
    whole = node.type.kind is Kind.INT and float(result).is_integer()
    return Number(int(result) if whole else result)


def _sum(x: Expr, y: Expr) -> Expr | None:
    a, b = number(x), number(y)
    if a == 0:
        return y
    if b == 0:
        return x
    if a == 1 and isinstance(y, Call) and y.op is Op.ELU:
        return _elu_plus_one(y.args[0])
    match x, y:
        case Call(Op.ELU, (z,)), _ if b == 1:
            return _elu_plus_one(z)
        case Call(Op.ADD, (z, Call(Op.ELU, (w,)))), _ if b == 1:
            return make(Op.ADD, z, _elu_plus_one(w))
        case _, Call(Op.NEG, (z,)):
            return make(Op.SUB, x, z)
        case Call(Op.NEG, (z,)), _:
            return make(Op.SUB, y, z)
        case Call(Op.ADD, (z, Number() as c)), Number():
            return make(Op.ADD, z, make(Op.ADD, c, y))
        case Call(Op.SUB, (z, Number() as c)), Number():
            return make(Op.SUB, z, make(Op.SUB, c, y))
    if b is not None and b < 0:
        return make(Op.SUB, x, -b)
    return None


def _elu_plus_one(x: Expr) -> Expr:
    """exp(x) below zero, so that it never rounds to 0; value and slope 1 at 0."""
    below = make(Op.EXP, make(Op.MIN, x, 0))
    return make(Op.WHERE, make(Op.GE, x, 0), make(Op.ADD, x, 1), below)


def _difference(x: Expr, y: Expr) -> Expr | None:
    a, b = number(x), number(y)
    if b == 0:
        return x
    if a == 0:
        return make(Op.NEG, y)
    match x, y:
        case _, Call(Op.NEG, (z,)):
            return make(Op.ADD, x, z)
        case Number(), Call(Op.SIGMOID, (z,)) if a == 1:
            return make(Op.SIGMOID, make(Op.NEG, z))
        case Call(Op.ADD, (z, Number() as c)), Number():
            return make(Op.ADD, z, make(Op.SUB, c, y))
        case Call(Op.SUB, (z, Number() as c)), Number():
            return make(Op.SUB, z, make(Op.ADD, c, y))
        case ((Index() | Dim()), (Index() | Dim())) if x == y:
            return Number(0)
    if b is not None and b < 0:
        return make(Op.ADD, x, -b)
    return None


def _product(x: Expr, y: Expr) -> Expr | None:
    a, b = number(x), number(y)
    if a == 0 or b == 0:
        return Number(0)
    if a == 1:
        return y
    if b == 1:
        return x
    if a == -1:
        return make(Op.NEG, y)
    if b == -1:
        return make(Op.NEG, x)
    match x, y:
        case Call(Op.NEG, (z,)), _ if b is None:
            return make(Op.NEG, make(Op.MUL, z, y))
        case _, Call(Op.NEG, (z,)) if a is None:
            return make(Op.NEG, make(Op.MUL, x, z))
        case Call(Op.EXP, (z,)), Call(Op.EXP, (w,)):
            return make(Op.EXP, make(Op.ADD, z, w))
        case Number() as c, Call(Op.MUL, (Number() as d, z)):
            return make(Op.MUL, make(Op.MUL, c, d), z)
        case Call(Op.MUL, (Number() as c, z)), Number() as d:
            return make(Op.MUL, make(Op.MUL, c, d), z)
        case Call(Op.MUL, (z, Number() as c)), Number() as d:
            return make(Op.MUL, z, make(Op.MUL, c, d))
        case _, Call(Op.DIV, (Number() as c, z)) if number(c) == 1:
            return make(Op.DIV, x, z)
        case Call(Op.DIV, (Number() as c, z)), _ if number(c) == 1:
            return make(Op.DIV, y, z)
    return None


def _quotient(x: Expr, y: Expr) -> Expr | None:
    a, b = number(x), number(y)
    if b == 1:
        return x
    if b == -1:
        return make(Op.NEG, x)
    if a == 0 and b:
        return Number(0)
    match x, y:
        case Call(Op.EXP, (z,)), Call(Op.EXP, (w,)):
            return make(Op.EXP, make(Op.SUB, z, w))
        case _, Call(Op.EXP, (w,)):
            return make(Op.MUL, x, make(Op.EXP, make(Op.NEG, w)))
        case Number(), Call(Op.ADD, (Number() as one, Call(Op.EXP, (w,)))) if number(one) == 1:
            return make(Op.MUL, x, make(Op.SIGMOID, make(Op.NEG, w)))
        case Number(), Call(Op.ADD, (Call(Op.EXP, (w,)), Number() as one)) if number(one) == 1:
            return make(Op.MUL, x, make(Op.SIGMOID, make(Op.NEG, w)))
        # x / norm(x) is one thing, with a value at the zero row
        case Call(Op.NEG, (z,)), _ if not (isinstance(y, Call) and y.op is Op.NORM):
            return make(Op.NEG, make(Op.DIV, z, y))
        case Call(Op.DIV, (z, Number() as c)), Number():
            return make(Op.DIV, z, make(Op.MUL, c, y))
    return None


def _power(x: Expr, y: Expr) -> Expr | None:
    b = number(y)
    if b == 1:
        return x
    if b == 0:
        return Number(1)
    if b == -1:
        return make(Op.DIV, 1, x)
    if b == 0.5:
        return make(Op.SQRT, x)
    match x:
        case Call(Op.EXP, (z,)):
            return make(Op.EXP, make(Op.MUL, z, y) if b is None else make(Op.MUL, y, z))
        case Call(Op.POW, (z, Number(int() as n))) if isinstance(b, int) and n > 0 and b > 0:
            return make(Op.POW, z, n * b)
        case Call(Op.NEG, (z,)) if isinstance(b, int) and b % 2 == 0:
            return make(Op.POW, z, y)
    return None


def _negative(x: Expr) -> Expr | None:
    match x:
        case Call(Op.NEG, (z,)):
            return z
        case Call(Op.SUB, (z, w)):
            return make(Op.SUB, w, z)
        case Call(Op.MUL, (Number(value), z)):
            return make(Op.MUL, -value, z)
        case Call(Op.DIV, (Number(value), z)):
            return make(Op.DIV, -value, z)
    return None


def _exponential(x: Expr) -> Expr | None:
    match x:
        case Call(Op.LOG, (z,)) if bounds(z).nonnegative:
            return z
        case Call(Op.LOG_SIGMOID, (z,)):
            return make(Op.SIGMOID, z)
    return None


def _logarithm(x: Expr) -> Expr | None:
    match x:
        case Call(Op.EXP, (z,)):
            return z
        case Call(Op.SIGMOID, (z,)):
            return make(Op.LOG_SIGMOID, z)
        case Call(Op.SQRT, (z,)):
            return make(Op.DIV, make(Op.LOG, z), 2)
        case Call(Op.MUL, (z, Call(Op.EXP, (w,)))) | Call(Op.MUL, (Call(Op.EXP, (w,)), z)):
            return make(Op.ADD, make(Op.LOG, z), w)
        case Call(Op.ADD, (Number() as c, Call(Op.EXP, (w,)))) if number(c) == 1:
            return make(Op.SOFTPLUS, w)
        case Call(Op.ADD, (Call(Op.EXP, (w,)), Number() as c)) if number(c) == 1:
            return make(Op.SOFTPLUS, w)
    return None


def _root(x: Expr) -> Expr | None:
    match x:
        case Call(Op.EXP, (z,)):
            return make(Op.EXP, make(Op.DIV, z, 2))
        case Call(Op.POW, (z, Number() as n)) if number(n) == 2:
            return make(Op.ABS, z)
    return None


def _absolute(x: Expr) -> Expr | None:
    match x:
        case Call(Op.NEG, (z,)):
            return make(Op.ABS, z)
    return x if bounds(x).nonnegative else None


def _rectified(x: Expr) -> Expr | None:
    return x if bounds(x).nonnegative else None


def _least(x: Expr, y: Expr) -> Expr | None:
    match x, y:
        case Call(Op.MIN, (_, z)), _ if z == y:
            return x
    return x if x == y else None


def _choice(condition: Expr, x: Expr, y: Expr) -> Expr | None:
    match condition:
        case Number(bool() as value):
            return x if value else y
    return x if x == y else None


def _and(x: Expr, y: Expr) -> Expr | None:
    match x, y:
        case (Number(False), _) | (_, Number(False)):
            return Number(False)
        case Number(True), _:
            return y
        case _, Number(True):
            return x
    return x if x == y else None


def _or(x: Expr, y: Expr) -> Expr | None:
    match x, y:
        case (Number(True), _) | (_, Number(True)):
            return Number(True)
        case Number(False), _:
            return y
        case _, Number(False):
            return x
    return x if x == y else None


def _not(x: Expr) -> Expr | None:
    match x:
        case Number(bool() as value):
            return Number(not value)
        case Call(Op.NOT, (z,)):
            return z
    return None


_RULES: dict[Op, Callable[..., Expr | None]] = {
    Op.ADD: _sum,
    Op.SUB: _difference,
    Op.MUL: _product,
    Op.DIV: _quotient,
    Op.POW: _power,
    Op.NEG: _negative,
    Op.EXP: _exponential,
    Op.LOG: _logarithm,
    Op.SQRT: _root,
    Op.ABS: _absolute,
    Op.RELU: _rectified,
    Op.MIN: _least,
    Op.WHERE: _choice,
    Op.AND: _and,
    Op.OR: _or,
    Op.NOT: _not,
}
