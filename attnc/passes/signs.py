"""Which sign a similarity has: by intervals, by its factors, as a polynomial of one product."""

from __future__ import annotations

import re
from fractions import Fraction

from attnc.ir.expr import Call, Expr
from attnc.ir.facts import Sign
from attnc.ir.ops import Op
from attnc.passes.intervals import Interval, Known, bounds
from attnc.passes.knowledge import NOTHING, Knowledge
from attnc.passes.polynomials import Monomial, Polynomial, TooLarge, polynomial_of
from attnc.passes.roots import Positivity, positivity
from attnc.passes.sides import spelled
from attnc.source import Source

Exponents = dict[Expr, Fraction]
_SIGNS = {
    Positivity.POSITIVE: Sign.POSITIVE,
    Positivity.NONNEGATIVE: Sign.NONNEGATIVE,
    Positivity.NEGATIVE: Sign.ANY,
}


def sign_of(expr: Expr, knowledge: Knowledge = NOTHING) -> Sign:
    """The sign that is certain."""
    return _sign(knowledge.inlined(expr), knowledge.known)


def _sign(expr: Expr, known: Known) -> Sign:
    by_interval = _sign_of_interval(bounds(expr, known))
    if by_interval is not Sign.ANY:
        return by_interval
    match expr:
        case Call(Op.MUL | Op.DIV, (x, y)):
            signs = (_sign(x, known), _sign(y, known))
            if Sign.ANY not in signs:
                return Sign.POSITIVE if set(signs) == {Sign.POSITIVE} else Sign.NONNEGATIVE
    try:
        return _sign_of_polynomial(polynomial_of(expr), known)
    except TooLarge:
        return Sign.ANY


def _sign_of_interval(interval: Interval) -> Sign:
    if interval.positive:
        return Sign.POSITIVE
    return Sign.NONNEGATIVE if interval.nonnegative else Sign.ANY


def _sign_of_polynomial(polynomial: Polynomial, known: Known) -> Sign:
    atoms = {atom for monomial in polynomial.terms for atom, _ in monomial}
    free = [atom for atom in atoms if not bounds(atom, known).positive]
    if len(free) == 1 and (scaled := _one_variable(polynomial, free[0])) is not None:
        from_zero = bounds(free[0], known).nonnegative
        return _SIGNS[positivity(scaled, from_zero)]
    return _sign_of_monomials(polynomial, free, known)


def _one_variable(polynomial: Polynomial, variable: Expr) -> list[Fraction] | None:
    """The coefficients of a polynomial in t, where t is the variable times something positive and
    the whole is the polynomial times something positive. None where there is no such t."""
    by_degree: dict[int, tuple[Exponents, Fraction]] = {}
    for monomial, c in polynomial.terms.items():
        scale = dict(monomial)
        degree = scale.pop(variable, Fraction(0))
        if degree.denominator != 1 or degree < 0 or int(degree) in by_degree:
            return None
        by_degree[int(degree)] = (scale, c)
    lowest, highest = min(by_degree), max(by_degree)
    base = by_degree[lowest][0]
    step: Exponents = {}
    if lowest != highest:
        difference = _divided(by_degree[highest][0], base)
        step = {atom: e / (highest - lowest) for atom, e in difference.items()}
    coefficients = [Fraction(0)] * (highest + 1)
    for n, (scale, c) in by_degree.items():
        expected = {atom: e * (n - lowest) for atom, e in step.items()}
        if _divided(_divided(scale, base), expected):
            return None
        coefficients[n] = c
    return coefficients


def _divided(x: Exponents, y: Exponents) -> Exponents:
    exponents = dict(x)
    for atom, e in y.items():
        exponents[atom] = exponents.get(atom, Fraction(0)) - e
    return {atom: e for atom, e in exponents.items() if e}


def _sign_of_monomials(polynomial: Polynomial, free: list[Expr], known: Known) -> Sign:
    """Non-negative where every monomial is."""
    if not all(
        c > 0 and _never_negative(monomial, free, known) for monomial, c in polynomial.terms.items()
    ):
        return Sign.ANY
    positive = any(not any(a in free for a, _ in monomial) for monomial in polynomial.terms)
    return Sign.POSITIVE if positive else Sign.NONNEGATIVE


def _never_negative(monomial: Monomial, free: list[Expr], known: Known) -> bool:
    return all(
        atom not in free
        or bounds(atom, known).nonnegative
        or (e.denominator == 1 and e.numerator % 2 == 0)
        for atom, e in monomial
    )


def culprit(expr: Expr, knowledge: Knowledge) -> str:
    """What makes the weight negative, in the user's words: a function with its definition, or a
    part of the similarity."""
    match expr:
        case Call(Op.MUL | Op.DIV, args):
            for arg in args:
                if sign_of(arg, knowledge) is Sign.ANY:
                    return culprit(arg, knowledge)
        case Call(Op.DOT, args):
            for number, row in enumerate(args):
                if not knowledge.bounds(row).nonnegative:
                    return _operand(expr, number, row)
    return spelled(expr)


def _operand(dot: Call, number: int, row: Expr) -> str:
    if dot.span is None:
        return spelled(row)
    operands = re.split(r"[@·]", " ".join(dot.span.text.split()))
    if len(operands) != 2:
        return spelled(row)
    text = operands[number].strip()
    called = re.match(r"(\w+)\(", text)
    definition = _definition(called[1], dot.span.source) if called else None
    return f"`{definition or text}`"


def _definition(name: str, source: Source) -> str | None:
    """The line that defines a function."""
    found = re.search(rf"^[ \t]*({re.escape(name)}\([^=\n]*\)\s*=[^#\n]*)", source.text, re.M)
    return " ".join(found[1].split()) if found else None
