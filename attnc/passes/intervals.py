"""Interval arithmetic over expressions: bounds that hold whatever the tensors contain.

An Interval bounds a number, or every element of a row. Ends may be open, so that exp(x) is known to
be above 0 and not only at least 0. Infinite ends are always open: values are finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from attnc.ir.expr import Call, Dim, Expr, Index, Number, constant_size
from attnc.ir.ops import Op
from attnc.ir.sizes import Size

INF = math.inf


@dataclass(frozen=True, slots=True)
class End:
    """One end of an interval. `open`: the value is approached and never reached."""

    value: float
    open: bool = False


@dataclass(frozen=True, slots=True)
class Interval:
    lower: End
    upper: End

    @staticmethod
    def of(low: float, high: float, low_open: bool = False, high_open: bool = False) -> Interval:
        return Interval(End(low, low_open or low == -INF), End(high, high_open or high == INF))

    @property
    def low(self) -> float:
        return self.lower.value

    @property
    def high(self) -> float:
        return self.upper.value

    @property
    def nonnegative(self) -> bool:
        return self.low >= 0

    @property
    def positive(self) -> bool:
        return self.low > 0 or (self.low == 0 and self.lower.open)

    @property
    def is_point(self) -> bool:
        return self.low == self.high

    def contains(self, value: float) -> bool:
        above = self.low < value or (self.low == value and not self.lower.open)
        return above and (value < self.high or (value == self.high and not self.upper.open))


ANYTHING = Interval.of(-INF, INF)
NONNEGATIVE = Interval.of(0, INF)
POSITIVE = Interval.of(0, INF, low_open=True)
Known = Mapping[Expr, Interval]

# the value never reaches the ends of the operation's own range
_STRICT = (
    Op.EXP, Op.LOG, Op.LOG2, Op.TANH, Op.SIGMOID, Op.LOG_SIGMOID, Op.ELU, Op.SOFTPLUS, Op.ERF,
    Op.SOFTMAX,
)  # fmt: skip
_FLAT = (Op.RELU, Op.FLOOR)  # monotone, but not strictly: an open end may become a reached one


def bounds(expr: Expr, known: Known | None = None) -> Interval:
    """What the expression's value, or each element of its row, lies in.

    `known` gives the intervals of subexpressions: indices, dims, tensors.
    """
    known = known or {}
    if (given := known.get(expr)) is not None:
        return given
    match expr:
        case Number(value):
            return Interval.of(value, value)
        case Dim(size):
            return _bounds_of_size(size)
        case Index():
            return ANYTHING
        case Call(op, args):
            return _bounds_of_call(expr, op, args, known)
    return ANYTHING


def _bounds_of_size(size: Size) -> Interval:
    """A dim is at least 1: of an empty row, or for no rows, nothing is computed."""
    number = size.constant
    if number is not None:
        return Interval.of(number, number)
    plain = all(isinstance(atom, str) for monomial, _ in size.terms for atom in monomial)
    if plain and all(c > 0 for _, c in size.terms):
        return Interval.of(float(sum(c for _, c in size.terms)), INF)
    return ANYTHING


def _bounds_of_call(expr: Call, op: Op, args: tuple[Expr, ...], known: Known) -> Interval:
    match op:
        case Op.MUL | Op.DOT if args[0] == args[1]:
            square = even_power(bounds(args[0], known), 2)
            return square if op is Op.MUL else _total(square, args[0])
        case Op.DOT if is_unit(args[0]) and is_unit(args[1]):
            return Interval.of(-1, 1)
        case Op.DIV if is_unit(expr):
            return Interval.of(-1, 1)
        case Op.DOT:
            return _total(multiply(bounds(args[0], known), bounds(args[1], known)), args[0])
        case Op.SUM:
            return _total(bounds(args[0], known), args[0])
        case Op.POW:
            return _power(args[0], args[1], known)
        case Op.WHERE:
            return _either(bounds(args[1], known), bounds(args[2], known))
        case Op.CONCAT:
            found = bounds(args[0], known)
            for arg in args[1:]:
                found = _either(found, bounds(arg, known))
            return found
        case Op.MEAN | Op.AMAX | Op.ROLL | Op.SLICE | Op.ELEMENT:
            return bounds(args[0], known)
        case Op.OUTER:
            return multiply(bounds(args[0], known), bounds(args[1], known))
        case Op.RANGE:
            count = constant_size(args[0])
            number = None if count is None else count.constant
            return Interval.of(0, INF if number is None else max(number - 1, 0))
        case Op.SIZE:
            return Interval.of(1, INF)
        case Op.CLAMP:
            x, low, high = (bounds(arg, known) for arg in args)
            return least(greatest(x, low), high)
    return _elementwise(op, tuple(bounds(arg, known) for arg in args))


def is_unit(row: Expr) -> bool:
    """Is it x / norm(x)?"""
    match row:
        case Call(Op.DIV, (x, Call(Op.NORM, (y,)))):
            return x == y
    return False


def _elementwise(op: Op, args: tuple[Interval, ...]) -> Interval:
    rule = _BINARY.get(op)
    if rule is not None and len(args) == 2:
        return rule(*args)
    if op is Op.NEG:
        return negate(args[0])
    if op is Op.ABS:
        return _absolute(args[0])
    low, high = op.info.interval
    strict = op in _STRICT
    whole = Interval.of(low, high, strict, strict)
    if not op.info.monotone or op.info.python is None:
        return whole
    return _within(whole, op, args[0])


def _within(whole: Interval, op: Op, x: Interval) -> Interval:
    """A monotone operation of an interval; `whole` is all that the operation can give."""
    lower = _map_end(op, x.lower, whole.lower)
    upper = _map_end(op, x.upper, whole.upper)
    return Interval.of(lower.value, upper.value, lower.open, upper.open)


def _map_end(op: Op, end: End, limit: End) -> End:
    if math.isinf(end.value):
        return limit
    assert op.info.python is not None
    try:
        value = op.info.python(end.value)
    except (OverflowError, ValueError):
        return limit
    if math.isnan(value) or math.isinf(value) or value == limit.value:
        return limit
    return End(value, end.open and op not in _FLAT)


def negate(x: Interval) -> Interval:
    return Interval(End(-x.high, x.upper.open), End(-x.low, x.lower.open))


def add(x: Interval, y: Interval) -> Interval:
    return Interval.of(
        x.low + y.low, x.high + y.high, x.lower.open or y.lower.open, x.upper.open or y.upper.open
    )


def subtract(x: Interval, y: Interval) -> Interval:
    return add(x, negate(y))


def multiply(x: Interval, y: Interval) -> Interval:
    return _hull([_times(a, b) for a in (x.lower, x.upper) for b in (y.lower, y.upper)])


def _hull(ends: list[End]) -> Interval:
    # of equal ends the closed one counts
    low = min(ends, key=lambda e: (e.value, e.open))
    high = max(ends, key=lambda e: (e.value, not e.open))
    return Interval.of(low.value, high.value, low.open, high.open)


def _times(a: End, b: End) -> End:
    if a.value == 0 or b.value == 0:
        reached = (a.value == 0 and not a.open) or (b.value == 0 and not b.open)
        return End(0.0, not reached)
    return End(a.value * b.value, a.open or b.open)


def _divide(x: Interval, y: Interval) -> Interval:
    if y.positive:
        ends = [_quotient(a, b) for a in (x.lower, x.upper) for b in (y.lower, y.upper)]
        return _hull(ends)
    if y.nonnegative and x.nonnegative:
        return NONNEGATIVE
    if negate(y).positive:
        return negate(_divide(x, negate(y)))
    return ANYTHING


def _quotient(a: End, b: End) -> End:
    """For a divisor that is not negative; 0 stands for the values just above it."""
    if a.value == 0:
        return a
    if b.value == 0:
        return End(math.copysign(INF, a.value), True)
    if b.value == INF:
        return End(math.copysign(INF if math.isinf(a.value) else 0.0, a.value), True)
    return End(a.value / b.value, a.open or b.open)


def _floor_divide(x: Interval, y: Interval) -> Interval:
    """Exact for whole numbers, which a product with the reciprocal is not."""
    if not y.positive or y.low == 0:
        return NONNEGATIVE if y.nonnegative and x.nonnegative else ANYTHING
    ends = [End(_floor_quotient(a, b)) for a in (x.low, x.high) for b in (y.low, y.high)]
    return _hull(ends)


def _floor_quotient(a: float, b: float) -> float:
    if math.isinf(a):
        return a
    if math.isinf(b):
        return 0 if a >= 0 else -1
    return a // b


def _modulo(x: Interval, y: Interval) -> Interval:
    if not y.positive:
        return ANYTHING
    if y.is_point and not math.isinf(x.low) and not math.isinf(x.high):
        period = x.low // y.low
        if x.high // y.low == period:
            return Interval.of(x.low - period * y.low, x.high - period * y.low)
    return Interval.of(0, y.high, False, True)


def even_power(x: Interval, n: int) -> Interval:
    size = _absolute(x)
    return Interval.of(
        _safe_power(size.low, n), _safe_power(size.high, n), size.lower.open, size.upper.open
    )


def _power(base: Expr, exponent: Expr, known: Known) -> Interval:
    x, y = bounds(base, known), bounds(exponent, known)
    if y.is_point and float(y.low).is_integer() and abs(y.low) <= 64:
        n = int(y.low)
        if n == 0:
            return Interval.of(1, 1)
        if n < 0:
            raised = even_power(x, -n) if n % 2 == 0 else _odd_power(x, -n)
            return _divide(Interval.of(1, 1), raised)
        return even_power(x, n) if n % 2 == 0 else _odd_power(x, n)
    if not x.positive:
        return NONNEGATIVE if x.nonnegative else ANYTHING
    # x^y = exp(y * log x)
    return _elementwise(Op.EXP, (multiply(y, _elementwise(Op.LOG, (x,))),))


def _odd_power(x: Interval, n: int) -> Interval:
    return Interval.of(
        math.copysign(_safe_power(abs(x.low), n), x.low),
        math.copysign(_safe_power(abs(x.high), n), x.high),
        x.lower.open,
        x.upper.open,
    )


def _safe_power(x: float, n: int) -> float:
    try:
        return x**n
    except OverflowError:
        return INF


def _absolute(x: Interval) -> Interval:
    if x.low >= 0:
        return x
    if x.high <= 0:
        return negate(x)
    high = max((x.upper, End(-x.low, x.lower.open)), key=lambda e: (e.value, not e.open))
    return Interval.of(0, high.value, False, high.open)


def _either(x: Interval, y: Interval) -> Interval:
    low = min(x.lower, y.lower, key=lambda e: (e.value, e.open))
    high = max(x.upper, y.upper, key=lambda e: (e.value, not e.open))
    return Interval(low, high)


def least(x: Interval, y: Interval) -> Interval:
    low = min(x.lower, y.lower, key=lambda e: (e.value, e.open))
    high = min(x.upper, y.upper, key=lambda e: (e.value, not e.open))
    return Interval(low, high)


def greatest(x: Interval, y: Interval) -> Interval:
    return negate(least(negate(x), negate(y)))


def _total(element: Interval, row: Expr) -> Interval:
    """The sum of a row whose elements lie in `element`. A row has at least one element."""
    size = row.type.shape[0].constant
    least_count, most = (1.0, INF) if size is None else (float(size), float(size))
    low = element.low * (least_count if element.low >= 0 else most)
    high = element.high * (most if element.high > 0 else least_count)
    return Interval.of(low, high, element.lower.open, element.upper.open)


_BINARY: dict[Op, Callable[[Interval, Interval], Interval]] = {
    Op.ADD: add,
    Op.SUB: subtract,
    Op.MUL: multiply,
    Op.DIV: _divide,
    Op.FLOORDIV: _floor_divide,
    Op.MOD: _modulo,
    Op.MIN: least,
    Op.MAX: greatest,
}
