"""Polynomials of one variable with rational coefficients: where they are negative, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from fractions import Fraction
from itertools import pairwise

Coefficients = tuple[Fraction, ...]  # from the constant upward; the last one is not 0


class Positivity(Enum):
    POSITIVE = "above 0 everywhere"
    NONNEGATIVE = "0 somewhere, never below"
    NEGATIVE = "below 0 somewhere"


def positivity(coefficients: Sequence[Fraction], from_zero: bool = False) -> Positivity:
    """Over all real numbers, or over those from 0 on, by Sturm's theorem."""
    p = _trimmed(coefficients)
    if not p:
        return Positivity.NONNEGATIVE
    if p[-1] < 0 or (not from_zero and len(p) % 2 == 0):
        return Positivity.NEGATIVE
    at_zero = p[0] == 0
    if from_zero and p[0] < 0:
        return Positivity.NEGATIVE
    # roots of odd multiplicity are where the sign changes
    odd, even = _odd_and_even_parts(p)
    if _changes_inside(odd, from_zero):
        return Positivity.NEGATIVE
    touches = _count_roots(even, from_zero) > 0 or (from_zero and at_zero)
    return Positivity.NONNEGATIVE if touches else Positivity.POSITIVE


def _changes_inside(odd: Coefficients, from_zero: bool) -> bool:
    """Has it a root where its sign changes? One at the edge of the half line changes nothing."""
    roots = _count_roots(odd, from_zero)
    if from_zero and odd[0] == 0:
        roots -= 1
    return roots > 0


def _odd_and_even_parts(p: Coefficients) -> tuple[Coefficients, Coefficients]:
    """Products of the factors of odd and of even multiplicity (Yun's square-free factors)."""
    odd: Coefficients = (Fraction(1),)
    even: Coefficients = (Fraction(1),)
    common = _gcd(p, _derivative(p))
    rest = _divide(p, common)[0]
    multiplicity = 1
    while len(rest) > 1:
        shared = _gcd(rest, common)
        factor = _divide(rest, shared)[0]
        if multiplicity % 2:
            odd = _multiply(odd, factor)
        else:
            even = _multiply(even, factor)
        common = _divide(common, shared)[0]
        rest, multiplicity = shared, multiplicity + 1
    return odd, even


def _count_roots(p: Coefficients, from_zero: bool) -> int:
    """How many distinct real roots, or roots from 0 on, a square-free polynomial has."""
    if len(p) < 2:
        return 0
    chain = [p, _derivative(p)]
    while len(chain[-1]) > 1:
        remainder = _divide(chain[-2], chain[-1])[1]
        if not remainder:
            break
        chain.append(tuple(-c for c in remainder))
    at_infinity = [q[-1] for q in chain]
    if from_zero:
        start = [q[0] for q in chain]
        return _sign_changes(start) - _sign_changes(at_infinity) + (p[0] == 0)
    at_minus = [q[-1] * (-1) ** (len(q) - 1) for q in chain]
    return _sign_changes(at_minus) - _sign_changes(at_infinity)


def _sign_changes(values: list[Fraction]) -> int:
    signs = [v > 0 for v in values if v]
    return sum(a != b for a, b in pairwise(signs))


def _trimmed(p: Sequence[Fraction]) -> Coefficients:
    kept = list(p)
    while kept and not kept[-1]:
        kept.pop()
    return tuple(kept)


def _derivative(p: Coefficients) -> Coefficients:
    return tuple(c * n for n, c in enumerate(p))[1:]


def _multiply(p: Coefficients, q: Coefficients) -> Coefficients:
    total = [Fraction(0)] * (len(p) + len(q) - 1)
    for m, a in enumerate(p):
        for n, b in enumerate(q):
            total[m + n] += a * b
    return tuple(total)


def _divide(p: Coefficients, q: Coefficients) -> tuple[Coefficients, Coefficients]:
    """Quotient and remainder."""
    rest = list(p)
    quotient = [Fraction(0)] * max(len(p) - len(q) + 1, 0)
    for shift in reversed(range(len(quotient))):
        c = rest[shift + len(q) - 1] / q[-1]
        quotient[shift] = c
        for n, b in enumerate(q):
            rest[shift + n] -= c * b
    return _trimmed(quotient), _trimmed(rest)


def _gcd(p: Coefficients, q: Coefficients) -> Coefficients:
    """The common divisor with leading coefficient 1."""
    while q:
        p, q = q, _divide(p, q)[1]
    return tuple(c / p[-1] for c in p)
