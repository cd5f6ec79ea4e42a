"""Expr -> polynomial over atoms with exact coefficients, and whether it is ever negative.

`polynomial_of` sees through `@` of rows that are laid side by side, multiplied out or scaled, so
that `taylor2(q) @ taylor2(k)` is 1 + s + s^2 / 2. Exponents of atoms that are known to be positive
(dims, numbers under a root) may be fractions; those of others are natural numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from attnc.ir.expr import Call, Dim, Expr, Number, call
from attnc.ir.ops import Op
from attnc.passes.intervals import bounds
from attnc.passes.sides import structure

Monomial = frozenset[tuple[Expr, Fraction]]
UNIT: Monomial = frozenset()
MAX_MONOMIALS = 64
MAX_EXPONENT = 16


class TooLarge(Exception):
    """More monomials than MAX_MONOMIALS, or an exponent over MAX_EXPONENT."""


@dataclass(frozen=True)
class Polynomial:
    terms: Mapping[Monomial, Fraction]

    @staticmethod
    def constant(value: Fraction | int) -> Polynomial:
        return Polynomial({UNIT: Fraction(value)} if value else {})

    @staticmethod
    def atom(expr: Expr, exponent: Fraction | int = 1) -> Polynomial:
        return Polynomial({frozenset({(expr, Fraction(exponent))}): Fraction(1)})

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for monomial, c in other.terms.items():
            terms[monomial] = terms.get(monomial, Fraction(0)) + c
        return Polynomial({m: c for m, c in terms.items() if c})

    def __mul__(self, other: Polynomial) -> Polynomial:
        if len(self.terms) * len(other.terms) > MAX_MONOMIALS:
            raise TooLarge
        total = Polynomial({})
        for x, a in self.terms.items():
            for y, b in other.terms.items():
                monomial, factor = _multiplied(x, y)
                total = total + Polynomial({monomial: a * b * factor})
        return total

    def power(self, n: int) -> Polynomial:
        if n > MAX_EXPONENT:
            raise TooLarge
        total = Polynomial.constant(1)
        for _ in range(n):
            total = total * self
        return total

    @property
    def number(self) -> Fraction | None:
        """The value of a constant."""
        if not self.terms:
            return Fraction(0)
        return self.terms.get(UNIT) if len(self.terms) == 1 else None

    def raised(self, exponent: Fraction) -> Polynomial | None:
        """A single positive monomial to any power, None for others."""
        if len(self.terms) != 1:
            return None
        ((monomial, c),) = self.terms.items()
        if not all(_positive(atom) for atom, _ in monomial) or c <= 0:
            return None
        base = Polynomial({frozenset((a, e * exponent) for a, e in monomial): Fraction(1)})
        return base * _root(c, exponent)


def _positive(atom: Expr) -> bool:
    return isinstance(atom, Dim | Number) and bounds(atom).positive


def _root(c: Fraction, exponent: Fraction) -> Polynomial:
    """c^exponent: whole powers as a number, the rest as powers of the numbers c is made of."""
    if exponent.denominator == 1 and abs(exponent) <= MAX_EXPONENT:
        return Polynomial.constant(c ** int(exponent))
    total = Polynomial.constant(1)
    for value, sign in ((c.numerator, 1), (c.denominator, -1)):
        for prime in _primes(value):
            total = total * _number_power(prime, exponent * sign)
    return total


def _primes(n: int) -> list[int]:
    """The prime factors below 1000, and what is left."""
    found, p = [], 2
    while p * p <= n and p < 1000:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return [*found, n] if n > 1 else found


def _number_power(base: int, exponent: Fraction) -> Polynomial:
    whole = math.floor(exponent)
    rest = exponent - whole
    factor = Fraction(base) ** whole
    root = frozenset({(Number(base), rest)}) if rest else UNIT
    return Polynomial({root: factor})


def _multiplied(x: Monomial, y: Monomial) -> tuple[Monomial, Fraction]:
    exponents = dict(x)
    for atom, e in y:
        exponents[atom] = exponents.get(atom, Fraction(0)) + e
    factor, kept = Fraction(1), {}
    for atom, e in exponents.items():
        if isinstance(atom, Number):
            # a root of a number that has become whole is a number again
            whole = math.floor(e)
            factor *= Fraction(atom.value) ** whole
            e -= whole
        if e:
            kept[atom] = e
    return frozenset(kept.items()), factor


def polynomial_of(expr: Expr) -> Polynomial:
    """The number as a polynomial; what is none becomes an atom. Raises TooLarge."""
    match expr:
        case Number(value) if not isinstance(value, bool) and math.isfinite(value):
            return Polynomial.constant(Fraction(value))
        case Call(op, args) if (rule := _RULES.get(op)) is not None:
            found = rule(*args)
            return Polynomial.atom(expr) if found is None else found
    return Polynomial.atom(expr)


def _quotient(x: Expr, y: Expr) -> Polynomial | None:
    inverse = polynomial_of(y).raised(Fraction(-1))
    if inverse is None:
        number = polynomial_of(y).number
        inverse = Polynomial.constant(1 / number) if number else None
    return None if inverse is None else polynomial_of(x) * inverse


def _power(x: Expr, y: Expr) -> Polynomial | None:
    exponent = polynomial_of(y).number
    if exponent is None:
        return None
    if exponent.denominator == 1 and exponent >= 0:
        return polynomial_of(x).power(int(exponent))
    return polynomial_of(x).raised(exponent)


def _dot(x: Expr, y: Expr) -> Polynomial:
    """x @ y through rows that are scaled, laid side by side or multiplied out."""
    for row, other in ((x, y), (y, x)):
        if (split := _scaled(row)) is not None:
            factor, inner = split
            return factor * _dot(inner, other)
    match x, y:
        case Call(Op.CONCAT, left), Call(Op.CONCAT, right) if _aligned(left, right):
            total = Polynomial({})
            for a, b in zip(left, right, strict=True):
                both_numbers = not (a.type.shape or b.type.shape)
                total = total + (
                    polynomial_of(a) * polynomial_of(b) if both_numbers else _dot(a, b)
                )
            return total
        case Call(Op.OUTER, (a, b)), Call(Op.OUTER, (c, d)) if _aligned((a, b), (c, d)):
            return _dot(a, c) * _dot(b, d)
        case Call(Op.SYMMETRIC_POWER, (a, m)), Call(Op.SYMMETRIC_POWER, (b, n)) if m == n:
            assert isinstance(m, Number)
            return _dot(a, b).power(int(m.value))
    # one name for x @ y and y @ x
    return Polynomial.atom(call(Op.DOT, *sorted((x, y), key=structure)))


def _scaled(row: Expr) -> tuple[Polynomial, Expr] | None:
    match row:
        case Call(Op.NEG, (x,)):
            return Polynomial.constant(-1), x
        case Call(Op.MUL, (a, x)) if not a.type.shape:
            return polynomial_of(a), x
        case Call(Op.MUL, (x, a)) if not a.type.shape:
            return polynomial_of(a), x
        case Call(Op.DIV, (x, a)) if not a.type.shape and x.type.shape:
            inverse = _quotient(Number(1), a)
            return None if inverse is None else (inverse, x)
    return None


def _aligned(left: tuple[Expr, ...], right: tuple[Expr, ...]) -> bool:
    return len(left) == len(right) and all(
        a.type.shape == b.type.shape for a, b in zip(left, right, strict=True)
    )


_RULES: dict[Op, Callable[..., Polynomial | None]] = {
    Op.ADD: lambda x, y: polynomial_of(x) + polynomial_of(y),
    Op.SUB: lambda x, y: polynomial_of(x) + Polynomial.constant(-1) * polynomial_of(y),
    Op.NEG: lambda x: Polynomial.constant(-1) * polynomial_of(x),
    Op.MUL: lambda x, y: polynomial_of(x) * polynomial_of(y),
    Op.DIV: _quotient,
    Op.POW: _power,
    Op.SQRT: lambda x: polynomial_of(x).raised(Fraction(1, 2)),
    Op.DOT: _dot,
}
