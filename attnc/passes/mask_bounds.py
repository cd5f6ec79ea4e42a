"""Mask -> bounds of the keys that a row may see, and of the rows that see a key, as expressions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from attnc.ir.expr import Call, Dim, Expr, Index, IndexName, Number, reads, walk
from attnc.ir.ops import Op
from attnc.passes.linear import Constraint, Linear, linear
from attnc.passes.logic import All, AnyOf, Formula, formula
from attnc.passes.simplify import make, number

MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Range:
    """first <= index < past; None where nothing is known."""

    first: Expr | None = None
    past: Expr | None = None


def range_of(mask: Expr | None, index: IndexName) -> Range:
    """Where `index` lies (KEY or QUERY) where the mask is true, in terms of the other of the two.
    Both ends are nondecreasing in it."""
    other = IndexName.QUERY if index is IndexName.KEY else IndexName.KEY
    return Range() if mask is None else _range(formula(mask), index, other)


def _range(node: Formula, index: IndexName, other: IndexName) -> Range:
    match node:
        case All(parts):
            ranges = [_range(part, index, other) for part in parts]
            firsts = [r.first for r in ranges if r.first is not None]
            pasts = [r.past for r in ranges if r.past is not None]
            return Range(_combine(Op.MAX, firsts), _combine(Op.MIN, pasts))
        case AnyOf(parts):
            if not parts:
                return Range(None, Number(0))
            ranges = [_range(part, index, other) for part in parts]
            first_ends, past_ends = [r.first for r in ranges], [r.past for r in ranges]
            known_firsts = [e for e in first_ends if e is not None]
            known_pasts = [e for e in past_ends if e is not None]
            return Range(
                _combine(Op.MIN, known_firsts) if len(known_firsts) == len(ranges) else None,
                _combine(Op.MAX, known_pasts) if len(known_pasts) == len(ranges) else None,
            )
        case Constraint():
            return _solve(node, index, other, 0)
    return Range()


def _combine(op: Op, ends: list[Expr]) -> Expr | None:
    """The smallest or largest of the ends."""
    found: Expr | None = None
    for end in ends:
        found = end if found is None or found == end else _extreme(op, found, end)
    return found


def _extreme(op: Op, x: Expr, y: Expr) -> Expr:
    difference = linear(x) - linear(y)
    if not difference.terms:
        return x if (difference.constant > 0) is (op is Op.MAX) else y
    return make(op, x, y)


def _solve(constraint: Constraint, index: IndexName, other: IndexName, depth: int) -> Range:
    form = constraint.tightened().form
    holders = [atom for atom in form.terms if reads(atom, index)]
    if len(holders) != 1 or depth > MAX_DEPTH or constraint.tightened().strict:
        return Range()
    (atom,) = holders
    c = int(form.terms[atom])
    rest = Linear({a: d for a, d in form.terms.items() if a != atom}, form.constant)
    if not rest.whole or not _readable(rest, other):
        return Range()
    # c * atom >= -rest
    limit = _ceil_quotient(rest.scaled(-1), c) if c > 0 else _quotient(rest, -c)
    if not _grows(limit, other):
        return Range()
    match atom:
        case Index():
            return Range(limit, None) if c > 0 else Range(None, make(Op.ADD, limit, 1))
        case Call(Op.FLOORDIV, (x, Number() as m)) if isinstance(p := number(m), int) and p > 0:
            # x // m <= limit is x < m * limit + m
            edge = linear(make(Op.MUL, p, limit)) - linear(x)
            whole = Linear({}, Fraction(p))
            inner = Constraint(edge.scaled(-1)) if c > 0 else Constraint(edge + whole, strict=True)
            return _solve(inner, index, other, depth + 1)
    return Range()


def _readable(form: Linear, other: IndexName) -> bool:
    """Can the ends of a loop be computed from it: the other index, dims and numbers alone?"""
    allowed = (Index(other),)
    return all(
        isinstance(node, Number | Dim | Call) or node in allowed
        for atom in form.terms
        for node in walk(atom)
    )


def _quotient(form: Linear, divisor: int) -> Expr:
    expr = form.expr()
    return expr if divisor == 1 else make(Op.FLOORDIV, expr, divisor)


def _ceil_quotient(form: Linear, divisor: int) -> Expr:
    return _quotient(form + Linear({}, Fraction(divisor - 1)), divisor)


def _grows(expr: Expr, index: IndexName, sign: int = 1) -> bool:
    """Is sign * expr certain not to decrease with the index?"""
    if not reads(expr, index):
        return True
    form = linear(expr)
    if form.terms != {expr: 1}:
        return all(_grows(atom, index, sign if c > 0 else -sign) for atom, c in form.terms.items())
    match expr:
        case Index():
            return sign > 0
        case Call(Op.FLOORDIV, (x, Number() as m)) if (number(m) or 0) > 0:
            return _grows(x, index, sign)
        case Call(Op.MIN | Op.MAX, (x, y)):
            return _grows(x, index, sign) and _grows(y, index, sign)
    return False
