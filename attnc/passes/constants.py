"""The numbers that constant expressions denote."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from attnc.ir.expr import Call, Expr, Number
from attnc.ir.ops import Op

Value = int | float | bool

MAX_BITS = 64  # larger whole numbers are computed as floating-point numbers


def _power(x: Value, y: Value) -> Value:
    whole = isinstance(x, int) and isinstance(y, int) and y >= 0
    if whole and (abs(x) <= 1 or y * int(x).bit_length() <= 4 * MAX_BITS):
        return x**y
    result = float(x) ** float(y)
    return math.nan if isinstance(result, complex) else result


INFIX: dict[Op, Callable[..., Value]] = {
    Op.ADD: operator.add,
    Op.SUB: operator.sub,
    Op.MUL: operator.mul,
    Op.DIV: operator.truediv,
    Op.FLOORDIV: operator.floordiv,
    Op.MOD: operator.mod,
    Op.NEG: operator.neg,
    Op.POW: _power,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.AND: operator.and_,
    Op.OR: operator.or_,
    Op.NOT: operator.not_,
    Op.FLOOR: lambda x: math.floor(x) if math.isfinite(x) else x,
    Op.WHERE: lambda condition, x, y: x if condition else y,
}


class NotFinite(ArithmeticError):
    """A constant operation has no finite value."""


def constant(expr: Expr) -> Value | None:
    """The number or boolean of a constant expression, None where it depends on anything.

    Raises NotFinite where finite arguments give none.
    """
    match expr:
        case Number(value):
            return value
        case Call(op, args):
            function = INFIX.get(op) or op.info.python
            values = []
            for arg in args:
                known = constant(arg) if function else None
                if known is None:
                    return None
                values.append(known)
            assert function is not None
            return _apply(function, values)
    return None


def _apply(function: Callable[..., Value], values: list[Value]) -> Value:
    try:
        result = function(*values)
    except ZeroDivisionError:
        raise NotFinite("divides by zero") from None
    except (OverflowError, ValueError):
        raise NotFinite("is not finite") from None
    if isinstance(result, bool):
        return result
    if isinstance(result, int):
        return result if result.bit_length() <= MAX_BITS else float(result)
    if math.isnan(result) or (math.isinf(result) and all(map(math.isfinite, values))):
        raise NotFinite("is not finite")
    return result
