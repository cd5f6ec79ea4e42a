"""Logarithms without a detour: the exponent of a weight, and log a of a decay."""

from __future__ import annotations

import math

from attnc.ir.expr import Call, Expr, Number, call
from attnc.ir.facts import Sign
from attnc.ir.ops import Op
from attnc.passes.knowledge import NOTHING, Knowledge
from attnc.passes.sides import one_sided
from attnc.passes.signs import sign_of
from attnc.passes.simplify import make, number, simplify


def exponent_of(similarity: Expr, knowledge: Knowledge = NOTHING) -> Expr | None:
    """e where the similarity is exp(e): a product of exponentials and of one-sided factors that
    are never negative. None for everything else."""
    found = _exponent(similarity, knowledge)
    return simplify(found[0]) if found is not None and found[1] else None


def _exponent(expr: Expr, knowledge: Knowledge) -> tuple[Expr, bool] | None:
    """The logarithm, and whether an exponential is among the factors."""
    match expr:
        case Call(Op.EXP, (x,)):
            return x, True
        case Call(Op.MUL | Op.DIV as op, (x, y)):
            left, right = _exponent(x, knowledge), _exponent(y, knowledge)
            if left is not None and right is not None:
                joined = make(Op.ADD if op is Op.MUL else Op.SUB, left[0], right[0])
                return joined, left[1] or right[1]
        case Call(Op.POW, (Number() as base, y)) if _above_zero(base) and number(y) is None:
            return make(Op.MUL, y, make(Op.LOG, base)), True
        case Call(Op.POW, (x, Number() as power)):
            if (inner := _exponent(x, knowledge)) is not None and inner[1]:
                return make(Op.MUL, power, inner[0]), True
        case Call(Op.SQRT, (x,)):
            if (inner := _exponent(x, knowledge)) is not None and inner[1]:
                return make(Op.DIV, inner[0], 2), True
    if one_sided(expr) and (sign := sign_of(expr, knowledge)) is not Sign.ANY:
        return _log(expr, sign), False
    return None


def _above_zero(base: Number) -> bool:
    return (number(base) or 0) > 0


def _log(expr: Expr, sign: Sign) -> Expr:
    log = simplify(call(Op.LOG, expr))
    if sign is Sign.POSITIVE:
        return log
    # a factor of 0 hides the pair and passes no gradient: 0 * (1 / 0) must not come about
    return call(Op.WHERE, call(Op.GT, expr, 0), log, Number(-math.inf))


def log_space(expr: Expr, knowledge: Knowledge = NOTHING) -> Expr:
    """log of a number or row that is not negative."""
    return simplify(_log_space(expr, knowledge))


def _log_space(expr: Expr, knowledge: Knowledge) -> Expr:
    match expr:
        case Call(Op.EXP, (x,)):
            return x
        case Call(Op.SIGMOID, (x,)):
            return call(Op.LOG_SIGMOID, x)
        case Call(Op.SUB, (Number() as one, Call(Op.SIGMOID, (x,)))) if number(one) == 1:
            return call(Op.LOG_SIGMOID, call(Op.NEG, x))
        case Call(Op.MUL | Op.DIV as op, (x, y)) if _not_negative((x, y), knowledge):
            joined = Op.ADD if op is Op.MUL else Op.SUB
            return call(joined, _log_space(x, knowledge), _log_space(y, knowledge))
        case Call(Op.POW, (Number() as base, y)) if _above_zero(base):
            return make(Op.MUL, y, make(Op.LOG, base))
        case Call(Op.POW, (x, y)) if _not_negative((x,), knowledge):
            return _scaled(y, _log_space(x, knowledge))
        case Call(Op.SQRT, (x,)):
            return call(Op.DIV, _log_space(x, knowledge), 2)
        case Call(Op.WHERE, (condition, x, y)):
            return call(Op.WHERE, condition, _log_space(x, knowledge), _log_space(y, knowledge))
        case Call(Op.MIN | Op.MAX | Op.CLAMP as op, args) if _not_negative(args, knowledge):
            return call(op, *(_log_space(arg, knowledge) for arg in args))
    return call(Op.LOG, expr)


def _scaled(power: Expr, log: Expr) -> Expr:
    """power * log, as a division where the power is 1 / n: a root is exact then."""
    match power:
        case Call(Op.DIV, (Number() as one, n)) if number(one) == 1:
            return call(Op.DIV, log, n)
    value = number(power)
    if value is not None and 0 < abs(value) < 1 and (1 / value).is_integer():
        return call(Op.DIV, log, int(1 / value))
    return call(Op.MUL, power, log)


def _not_negative(factors: tuple[Expr, ...], knowledge: Knowledge) -> bool:
    return all(sign_of(factor, knowledge) is not Sign.ANY for factor in factors)


def at_most_zero(log: Expr, knowledge: Knowledge = NOTHING) -> Expr:
    """log, or 0 where it is above; its slope is 1 up to 0 and at 0."""
    if knowledge.bounds(log).high <= 0:
        return log
    return call(Op.WHERE, call(Op.GT, log, 0), 0, log)
