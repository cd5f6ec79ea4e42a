"""Mask -> MaskFacts, and what a mask is on a tile of rows and keys. Nothing of size L x S."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from attnc.ir.expr import Call, Dim, Expr, Index, IndexName, Number, Tensor, call, reads
from attnc.ir.facts import MaskFacts
from attnc.ir.ops import COMPARISONS, Op
from attnc.ir.sizes import Size
from attnc.passes.intervals import NONNEGATIVE, Interval, Known, add, bounds, multiply
from attnc.passes.linear import linear
from attnc.passes.logic import decided_by_tensors, implies
from attnc.passes.mask_bounds import range_of

CAUSAL = call(Op.LE, Index(IndexName.KEY), Index(IndexName.QUERY))


class Tile(Enum):
    EMPTY = "no pair"
    FULL = "every pair"
    PARTIAL = "some pairs, or not known"


def mask_facts(mask: Expr | None) -> MaskFacts:
    factors = () if mask is None else conjuncts(mask)
    keys = tuple(f for f in factors if not reads(f, IndexName.QUERY))
    pairs = tuple(f for f in factors if reads(f, IndexName.QUERY))
    same = tuple(f for f in pairs if is_same(f))
    key_range, row_range = range_of(mask, IndexName.KEY), range_of(mask, IndexName.QUERY)
    return MaskFacts(
        key_factors=keys,
        pair_factors=pairs,
        same_factors=same,
        implies_causal=mask is not None and implies(mask, CAUSAL),
        is_causal=_equals_causal([f for f in pairs if f not in same]),
        first_key=key_range.first,
        past_key=key_range.past,
        first_row=row_range.first,
        past_row=row_range.past,
    )


def conjuncts(mask: Expr) -> tuple[Expr, ...]:
    """The factors of a conjunction, `not (a or b)` among them."""
    match mask:
        case Number(True):
            return ()
        case Call(Op.AND, (x, y)):
            return conjuncts(x) + conjuncts(y)
        case Call(Op.NOT, (Call(Op.OR, (x, y)),)):
            return conjuncts(call(Op.NOT, x)) + conjuncts(call(Op.NOT, y))
        case Call(Op.NOT, (Call(Op.NOT, (x,)),)):
            return conjuncts(x)
    return (mask,)


def is_same(factor: Expr) -> bool:
    """Is it `same(..)`: the row and the key lie in one run of ids?"""
    match factor:
        case Call(Op.EQ, (Tensor(a, runs=True) as x, Tensor(b, runs=True) as y)) if a == b:
            sides = {reads(x, IndexName.QUERY), reads(y, IndexName.QUERY)}
            return sides == {True, False}
    return False


def _equals_causal(factors: list[Expr]) -> bool:
    if not factors:
        return False
    whole = factors[0]
    for factor in factors[1:]:
        whole = call(Op.AND, whole, factor)
    return implies(whole, CAUSAL) and implies(CAUSAL, whole)


def tile(
    mask: Expr | None,
    positions: tuple[int, int],
    keys: tuple[int, int],
    sizes: Mapping[str, int] | None = None,
) -> Tile:
    """What the mask is for positions and keys from the first up to, not including, the second."""
    if mask is None:
        return Tile.FULL
    known: dict[Expr, Interval] = {
        Dim(Size.of(name)): Interval.of(n, n) for name, n in (sizes or {}).items()
    }
    known[Index(IndexName.HEAD)] = known[Index(IndexName.BATCH)] = NONNEGATIVE
    known[Index(IndexName.QUERY)] = Interval.of(positions[0], positions[1] - 1)
    known[Index(IndexName.KEY)] = Interval.of(keys[0], keys[1] - 1)
    may_hold, may_fail = _truth(mask, known)
    if not may_hold:
        return Tile.EMPTY
    return Tile.PARTIAL if may_fail else Tile.FULL


def _truth(expr: Expr, known: Known) -> tuple[bool, bool]:
    """May the expression be true, and may it be false?"""
    match expr:
        case Number(bool() as value):
            return value, not value
        case Call(Op.NOT, (x,)):
            holds, fails = _truth(x, known)
            return fails, holds
        case Call(Op.AND, (x, y)):
            left, right = _truth(x, known), _truth(y, known)
            return left[0] and right[0], left[1] or right[1]
        case Call(Op.OR, (x, y)):
            left, right = _truth(x, known), _truth(y, known)
            return left[0] or right[0], left[1] and right[1]
        case Call(op, (x, y)) if op in COMPARISONS:
            holds, fails = _compared(op, x, y, known)
            return holds, fails or decided_by_tensors(expr)
    return True, True


def _compared(op: Op, x: Expr, y: Expr, known: Known) -> tuple[bool, bool]:
    form = linear(y) - linear(x)
    constant = float(form.constant)
    difference = Interval.of(constant, constant)
    for atom, c in form.terms.items():
        scaled = multiply(Interval.of(float(c), float(c)), bounds(atom, known))
        difference = add(difference, scaled)
    positive = difference.high > 0
    negative = difference.low < 0
    zero = difference.contains(0)
    match op:
        case Op.LE:
            return positive or zero, negative
        case Op.LT:
            return positive, negative or zero
        case Op.GE:
            return negative or zero, positive
        case Op.GT:
            return negative, positive or zero
        case Op.EQ:
            return zero, positive or negative
    return positive or negative, zero
