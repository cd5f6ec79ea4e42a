"""Symbolic sizes: polynomials over dims, in one normal form, so that equal sizes compare equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """An atom that is no polynomial: floor(numerator / denominator)."""

    numerator: Size
    denominator: Size

    def __str__(self) -> str:
        return f"({self.numerator}) // ({self.denominator})"


Atom = str | FloorDiv
Monomial = tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Size:
    """A sum of coefficient * product of atoms. Build with `Size.of`; combine with + - * //."""

    terms: tuple[tuple[Monomial, Fraction], ...]

    @staticmethod
    def of(value: int | str | Atom) -> Size:
        if isinstance(value, int):
            return Size._make({(): Fraction(value)})
        return Size._make({(value,): Fraction(1)})

    @staticmethod
    def _make(terms: Mapping[Monomial, Fraction]) -> Size:
        kept = {m: c for m, c in terms.items() if c}
        return Size(tuple(sorted(kept.items(), key=lambda term: (-len(term[0]), str(term[0])))))

    @property
    def constant(self) -> int | None:
        """The number that this size is, or None where it depends on a dim."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and self.terms[0][0] == ():
            value = self.terms[0][1]
            return int(value) if value.denominator == 1 else None
        return None

    @property
    def dims(self) -> frozenset[str]:
        """The dims that it depends on."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                if isinstance(atom, str):
                    found.add(atom)
                else:
                    found |= atom.numerator.dims | atom.denominator.dims
        return frozenset(found)

    def __add__(self, other: Size) -> Size:
        terms = dict(self.terms)
        for monomial, coefficient in other.terms:
            terms[monomial] = terms.get(monomial, Fraction(0)) + coefficient
        return Size._make(terms)

    def __sub__(self, other: Size) -> Size:
        return self + other * Size.of(-1)

    def __mul__(self, other: Size) -> Size:
        terms: dict[Monomial, Fraction] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                monomial = tuple(sorted(left + right, key=str))
                terms[monomial] = terms.get(monomial, Fraction(0)) + a * b
        return Size._make(terms)

    def __floordiv__(self, other: Size) -> Size:
        if self.constant is not None and other.constant:
            return Size.of(self.constant // other.constant)
        if other.constant == 1:
            return self
        if other.constant:
            divided = Size._make({m: c / other.constant for m, c in self.terms})
            if all(c.denominator == 1 for _, c in divided.terms):
                return divided
        return Size.of(FloorDiv(self, other))

    def substitute(self, values: Mapping[str, int]) -> Size:
        """The size with dims replaced by numbers."""
        total = Size.of(0)
        for monomial, coefficient in self.terms:
            product = Size._make({(): coefficient})
            for atom in monomial:
                product = product * _substitute_atom(atom, values)
            total = total + product
        return total

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The number for given dims. Raises KeyError for a dim that is not given."""
        constant = self.substitute(values).constant
        if constant is None:
            raise KeyError(", ".join(sorted(self.dims - set(values))) or str(self))
        return constant

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts = []
        for monomial, coefficient in self.terms:
            factors = [str(a) if isinstance(a, str) else f"({a})" for a in monomial]
            if abs(coefficient.numerator) != 1 or not factors:
                factors.insert(0, str(abs(coefficient.numerator)))
            text = "*".join(factors)
            if coefficient.denominator != 1:
                text += f"/{coefficient.denominator}"
            parts.append((" - " if coefficient < 0 else " + ") + text)
        joined = "".join(parts)
        return joined[3:] if joined.startswith(" + ") else "-" + joined[3:]


def _substitute_atom(atom: Atom, values: Mapping[str, int]) -> Size:
    if isinstance(atom, str):
        return Size.of(values[atom]) if atom in values else Size.of(atom)
    return atom.numerator.substitute(values) // atom.denominator.substitute(values)
