"""A similarity as a sum of terms: number * query factor * key factor * products A @ B.

`expand` raises CannotExpand where an operation mixes both sides and is no such sum.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from attnc.ir.expr import Call, Dim, Expr, Number
from attnc.ir.facts import Side
from attnc.ir.ops import Op
from attnc.passes.sides import one_sided, side_of, spelled
from attnc.passes.simplify import make, number
from attnc.source import Span

MAX_TERMS = 64
MAX_DEGREE = 4  # products A @ B in one term: the row grows with this power of d_k

ONE = Number(1)
T = TypeVar("T")
Pairs = frozenset[tuple[tuple[Expr, Expr], int]]


class CannotExpand(Exception):
    """`reason` in the user's terms."""

    def __init__(self, reason: str, span: Span | None):
        super().__init__(reason)
        self.reason, self.span = reason, span


@dataclass(frozen=True, slots=True)
class Term:
    """`pairs` counts each product A @ B, A of the query side and B of the key side."""

    coefficient: Fraction | float = Fraction(1)
    query: Expr = ONE
    key: Expr = ONE
    pairs: Pairs = frozenset()

    @property
    def degree(self) -> int:
        return sum(n for _, n in self.pairs)


@dataclass(frozen=True, slots=True)
class RowTerm:
    """A row as number, query row and key row multiplied element by element; None is a row of 1."""

    term: Term = Term()
    query: Expr | None = None
    key: Expr | None = None


def expand(expr: Expr) -> list[Term]:
    """The terms of a number. Like terms are added up."""
    match side_of(expr):
        case Side.CONSTANT | Side.QUERY:
            value = number(expr)
            return [Term(query=expr) if value is None else Term(coefficient=_exact(value))]
        case Side.KEY:
            return [Term(key=expr)]
    if not isinstance(expr, Call):
        raise CannotExpand(f"{spelled(expr)} belongs to the pair of i and j", expr.span)
    match expr.op, expr.args:
        case Op.ADD, (x, y):
            return _collected(expand(x) + expand(y), expr)
        case Op.SUB, (x, y):
            return _collected(expand(x) + _negated(expand(y)), expr)
        case Op.NEG, (x,):
            return _negated(expand(x))
        case Op.MUL, (x, y):
            return _products(expand(x), expand(y), expr)
        case Op.DIV, (x, y):
            return _products(expand(x), [_reciprocal(y)], expr)
        case Op.POW, (x, y):
            return _power(expr, x, y)
        case Op.DOT, (x, y):
            rows = _row_products(expand_row(x), expand_row(y), expr)
            return _collected([_sum_of_row(row) for row in rows], expr)
        case Op.SUM, (x,):
            return _collected([_sum_of_row(row) for row in expand_row(x)], expr)
        case Op.MEAN, (x,):
            total = [_sum_of_row(row) for row in expand_row(x)]
            return _products(total, [_reciprocal(Dim(x.type.shape[0]))], expr)
        case Op.EXP, (x,):
            query, key = _one_sided_sum(x, expr)
            return [Term(query=make(Op.EXP, query), key=make(Op.EXP, key))]
        case ((Op.SIN | Op.COS), (x,)):
            return _angle_sum(expr.op, *_one_sided_sum(x, expr))
    raise _mixes(expr)


def expand_row(expr: Expr) -> list[RowTerm]:
    """A row, or a number spread over a row, as a sum of row terms."""
    if not expr.type.shape:
        return [RowTerm(term) for term in expand(expr)]
    side = side_of(expr)
    if side is Side.KEY:
        return [RowTerm(key=expr)]
    if side is not Side.PAIR:
        return [RowTerm(query=expr)]
    if not isinstance(expr, Call):
        raise CannotExpand(f"{spelled(expr)} belongs to the pair of i and j", expr.span)
    match expr.op, expr.args:
        case Op.ADD, (x, y):
            return _limited(expand_row(x) + expand_row(y), expr)
        case Op.SUB, (x, y):
            return _limited(expand_row(x) + _negated_rows(expand_row(y)), expr)
        case Op.NEG, (x,):
            return _negated_rows(expand_row(x))
        case Op.MUL, (x, y):
            return _row_products(expand_row(x), expand_row(y), expr)
        case Op.DIV, (x, y) if one_sided(y):
            if not y.type.shape:
                inverse = RowTerm(_reciprocal(y))
            else:
                row = make(Op.DIV, 1, y)
                inverse = RowTerm(key=row) if side_of(y) is Side.KEY else RowTerm(query=row)
            return _row_products(expand_row(x), [inverse], expr)
        case Op.POW, (x, Number(int() as n)) if 1 <= n <= MAX_DEGREE:
            rows = base = expand_row(x)
            for _ in range(n - 1):
                rows = _row_products(rows, base, expr)
            return rows
        case Op.EXP, (x,):
            return [_row_exponential(expand_row(x), expr)]
        case ((Op.ROLL | Op.SLICE), (x, *rest)):
            return [_mapped(row, expr.op, (), tuple(rest)) for row in expand_row(x)]
        case Op.MATMUL, (w, x) if side_of(w) is Side.CONSTANT:
            rows = expand_row(x)
            if all((row.query is None) != (row.key is None) for row in rows):
                return [_mapped(row, expr.op, (w,), ()) for row in rows]
    raise _mixes(expr)


def _mixes(expr: Expr) -> CannotExpand:
    name = expr.op.info.spelling if isinstance(expr, Call) else "it"
    inside = "in a power" if name == "^" else f"inside {name}"
    return CannotExpand(
        f"{spelled(expr)} mixes q and k {inside}, so that it is no finite sum of products"
        " phi(q) @ psi(k)",
        expr.span,
    )


def _exact(value: int | float) -> Fraction | float:
    return Fraction(value) if isinstance(value, int) else value


def _times(x: Expr, y: Expr) -> Expr:
    return make(Op.MUL, x, y)


def _product(x: Term, y: Term) -> Term:
    pairs = Counter(dict(x.pairs))
    pairs.update(dict(y.pairs))
    return Term(
        x.coefficient * y.coefficient,
        _times(x.query, y.query),
        _times(x.key, y.key),
        frozenset(pairs.items()),
    )


def _products(left: list[Term], right: list[Term], place: Expr) -> list[Term]:
    return _collected([_product(x, y) for x in left for y in right], place)


def _negated(terms: list[Term]) -> list[Term]:
    return [replace(term, coefficient=-term.coefficient) for term in terms]


def _negated_rows(rows: list[RowTerm]) -> list[RowTerm]:
    return [replace(row, term=_negated([row.term])[0]) for row in rows]


def _collected(terms: list[Term], place: Expr) -> list[Term]:
    """Like terms added up, in order of appearance, within the limits."""
    totals: dict[tuple[Expr, Expr, Pairs], Fraction | float] = {}
    for term in terms:
        if term.degree > MAX_DEGREE:
            raise CannotExpand(
                f"{spelled(place)} multiplies more than {MAX_DEGREE} products of q and k, so that"
                " its rows would be too long",
                place.span,
            )
        like = (term.query, term.key, term.pairs)
        totals[like] = totals.get(like, Fraction(0)) + term.coefficient
    kept = [Term(total, *like) for like, total in totals.items() if total]
    return _limited(kept or [Term(Fraction(0))], place)


def _limited(terms: list[T], place: Expr) -> list[T]:
    if len(terms) > MAX_TERMS:
        raise CannotExpand(f"{spelled(place)} has more than {MAX_TERMS} terms", place.span)
    return terms


def _reciprocal(divisor: Expr) -> Term:
    """1 / divisor, for a divisor without products of q and k."""
    value = number(divisor)
    if value:
        return Term(1 / _exact(value))
    terms = expand(divisor)
    if len(terms) > 1 or terms[0].pairs:
        raise CannotExpand(f"it divides by {spelled(divisor)}, which mixes q and k", divisor.span)
    (term,) = terms
    if not term.coefficient:
        raise CannotExpand(f"it divides by {spelled(divisor)}, which is 0", divisor.span)
    query, key = make(Op.DIV, 1, term.query), make(Op.DIV, 1, term.key)
    return Term(1 / term.coefficient, query, key)


def _power(expr: Expr, x: Expr, y: Expr) -> list[Term]:
    n = number(y)
    if isinstance(n, float) and n.is_integer():
        n = int(n)
    if not isinstance(n, int) or n < 0:
        raise _mixes(expr)
    if n > MAX_DEGREE:
        raise CannotExpand(
            f"{spelled(expr)} has an exponent above {MAX_DEGREE}, so that its rows would be too"
            " long",
            expr.span,
        )
    result, base = [Term()], expand(x)
    for _ in range(n):
        result = _products(result, base, expr)
    return result


def _one_sided_sum(arg: Expr, whole: Expr) -> tuple[Expr, Expr]:
    """The query's part and the key's part of a sum of one-sided terms."""
    try:
        terms = expand(arg)
    except CannotExpand:
        raise _mixes(whole) from None
    query = key = Number(0)
    parts: list[Expr] = [query, key]
    for term in terms:
        if term.pairs or (term.query != ONE and term.key != ONE):
            raise _mixes(whole)
        side = term.key != ONE
        value = _times(_number(term.coefficient), term.key if side else term.query)
        parts[side] = make(Op.ADD, parts[side], value)
    return parts[0], parts[1]


def _angle_sum(op: Op, x: Expr, y: Expr) -> list[Term]:
    """cos(x + y) and sin(x + y) by their addition theorems."""
    sin_x, cos_x, sin_y, cos_y = (make(f, z) for z in (x, y) for f in (Op.SIN, Op.COS))
    if op is Op.COS:
        return [Term(query=cos_x, key=cos_y), Term(Fraction(-1), sin_x, sin_y)]
    return [Term(query=sin_x, key=cos_y), Term(query=cos_x, key=sin_y)]


def _number(value: Fraction | float) -> Expr:
    if isinstance(value, Fraction) and value.denominator == 1:
        return Number(int(value))
    return Number(float(value))


def coefficient(term: Term) -> Expr:
    """The term's number times its query factor."""
    return _times(_number(term.coefficient), term.query)


def _both(x: Expr | None, y: Expr | None) -> Expr | None:
    if x is None or y is None:
        return y if x is None else x
    return _times(x, y)


def _row_products(left: list[RowTerm], right: list[RowTerm], place: Expr) -> list[RowTerm]:
    found = [
        RowTerm(_product(x.term, y.term), _both(x.query, y.query), _both(x.key, y.key))
        for x in left
        for y in right
    ]
    return _limited(found, place)


def _sum_of_row(row: RowTerm) -> Term:
    """The sum of a row term's elements: one more product, or a one-sided factor."""
    query, key = row.query, row.key
    if key is None:
        assert query is not None, "a number has no elements"
        return _product(row.term, Term(query=_row_sum(query)))
    if query is None:
        return _product(row.term, Term(key=_row_sum(key)))
    if side_of(query) is Side.CONSTANT:
        return _product(row.term, Term(key=make(Op.DOT, key, query)))
    return _product(row.term, Term(pairs=frozenset({((query, key), 1)})))


def _row_sum(row: Expr) -> Expr:
    match row:
        case Call(Op.MUL, (x, y)) if x.type.shape and y.type.shape:
            return make(Op.DOT, x, y)
    return make(Op.SUM, row)


def _row_exponential(rows: list[RowTerm], whole: Expr) -> RowTerm:
    """exp of a row that is a sum of one-sided rows and numbers."""
    parts: list[Expr | None] = [None, None]
    for row in rows:
        on_query = row.query is not None or row.term.query != ONE
        on_key = row.key is not None or row.term.key != ONE
        if row.term.pairs or (on_query and on_key):
            raise _mixes(whole)
        value = _times(coefficient(row.term), row.term.key)
        element = row.key if on_key else row.query
        value = value if element is None else _times(value, element)
        before = parts[on_key]
        parts[on_key] = value if before is None else make(Op.ADD, before, value)
    query, key = (None if part is None else make(Op.EXP, part) for part in parts)
    result = RowTerm()
    for part, is_key in ((query, False), (key, True)):
        if part is None:
            continue
        if part.type.shape:
            result = replace(result, key=part) if is_key else replace(result, query=part)
        else:
            factor = Term(key=part) if is_key else Term(query=part)
            result = replace(result, term=_product(result.term, factor))
    return result


def _mapped(row: RowTerm, op: Op, before: tuple[Expr, ...], after: tuple[Expr, ...]) -> RowTerm:
    query, key = (
        None if part is None else make(op, *before, part, *after) for part in (row.query, row.key)
    )
    return replace(row, query=query, key=key)
