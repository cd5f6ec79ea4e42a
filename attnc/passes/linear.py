"""Linear forms over exact numbers, and whether a set of linear constraints can hold at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from attnc.ir.expr import Call, Dim, Expr, Number, call
from attnc.ir.ops import Op
from attnc.ir.sizes import Size
from attnc.ir.types import Kind
from attnc.passes.simplify import make, number

MAX_CONSTRAINTS = 400


@dataclass(frozen=True)
class Linear:
    """Sum of coefficient * atom, plus a constant. Atoms are expressions that are no sums."""

    terms: Mapping[Expr, Fraction]
    constant: Fraction = Fraction(0)

    def __add__(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for atom, c in other.terms.items():
            terms[atom] = terms.get(atom, Fraction(0)) + c
        kept = {atom: c for atom, c in terms.items() if c}
        return Linear(kept, self.constant + other.constant)

    def scaled(self, factor: Fraction | int) -> Linear:
        if not factor:
            return Linear({})
        terms = {atom: c * factor for atom, c in self.terms.items()}
        return Linear(terms, self.constant * factor)

    def __sub__(self, other: Linear) -> Linear:
        return self + other.scaled(-1)

    def replace(self, atom: Expr, value: Linear) -> Linear:
        """The form with an atom replaced by another form."""
        c = self.terms[atom]
        rest = Linear({a: d for a, d in self.terms.items() if a != atom}, self.constant)
        return rest + value.scaled(c)

    @property
    def whole(self) -> bool:
        """Is the value an integer whatever the atoms are?"""
        numbers = [*self.terms.values(), self.constant]
        kinds = all(atom.type.kind is Kind.INT for atom in self.terms)
        return kinds and all(c.denominator == 1 for c in numbers)

    def expr(self) -> Expr:
        """The expression, for a form with integer coefficients."""
        total: Expr = Number(int(self.constant))
        for atom, c in self.terms.items():
            total = make(Op.ADD, make(Op.MUL, int(c), atom), total)
        return total


def linear(expr: Expr) -> Linear:
    """The expression as a linear form; what is not linear becomes an atom."""
    match expr:
        case Number(value) if not isinstance(value, bool) and math.isfinite(value):
            return Linear({}, Fraction(value))
        case Dim(size):
            return _linear_size(size)
        case Call(Op.ADD, (x, y)):
            return linear(x) + linear(y)
        case Call(Op.SUB, (x, y)):
            return linear(x) - linear(y)
        case Call(Op.NEG, (x,)):
            return linear(x).scaled(-1)
        case Call(Op.MUL, (x, y)):
            left, right = linear(x), linear(y)
            if not left.terms:
                return right.scaled(left.constant)
            if not right.terms:
                return left.scaled(right.constant)
        case Call(Op.DIV, (x, y)):
            divisor = number(y)
            if divisor and math.isfinite(divisor):
                return linear(x).scaled(1 / Fraction(divisor))
        case Call(Op.MOD, (x, y)):
            # x % m = x - m * (x // m)
            period = number(y)
            if period and math.isfinite(period):
                quotient = Linear({call(Op.FLOORDIV, x, y): Fraction(1)})
                return linear(x) - quotient.scaled(Fraction(period))
    return Linear({expr: Fraction(1)})


def _linear_size(size: Size) -> Linear:
    total = Linear({})
    for monomial, c in size.terms:
        if not monomial:
            total = total + Linear({}, c)
        elif len(monomial) == 1:
            total = total + Linear({Dim(Size.of(monomial[0])): c})
        else:
            total = total + Linear({Dim(Size(((monomial, Fraction(1)),))): c})
    return total


@dataclass(frozen=True)
class Constraint:
    """form >= 0, or form > 0 where `strict`."""

    form: Linear
    strict: bool = False

    def tightened(self) -> Constraint:
        """With whole coefficients as small as they can be; over integers never strict."""
        numbers = [*self.form.terms.values()]
        if not numbers:
            return self
        factor = math.lcm(*(c.denominator for c in numbers))
        form = self.form.scaled(factor)
        divisor = math.gcd(*(int(c) for c in form.terms.values()))
        form = form.scaled(Fraction(1, divisor))
        if not all(atom.type.kind is Kind.INT for atom in form.terms):
            return Constraint(form, self.strict)
        # whole + constant > 0 is whole >= floor(-constant) + 1
        least = math.floor(-form.constant) + 1 if self.strict else math.ceil(-form.constant)
        return Constraint(Linear(form.terms, Fraction(-least)))

    @property
    def impossible(self) -> bool:
        value = self.form.constant
        return not self.form.terms and (value <= 0 if self.strict else value < 0)


def contradictory(constraints: Iterable[Constraint]) -> bool:
    """Can they never hold at once? Fourier's elimination; False where it grows too large."""
    left = [c.tightened() for c in constraints]
    left += [fact.tightened() for fact in _facts_of_atoms(left)]
    while True:
        if any(c.impossible for c in left):
            return True
        left = [c for c in left if c.form.terms]
        if not left or len(left) > MAX_CONSTRAINTS:
            return False
        left = _eliminate(left, _cheapest(left))


def _cheapest(constraints: list[Constraint]) -> Expr:
    signs: dict[Expr, list[int]] = {}
    for constraint in constraints:
        for atom, c in constraint.form.terms.items():
            signs.setdefault(atom, [0, 0])[c > 0] += 1
    return min(signs, key=lambda atom: signs[atom][0] * signs[atom][1])


def _eliminate(constraints: list[Constraint], atom: Expr) -> list[Constraint]:
    above: list[Constraint] = []
    below: list[Constraint] = []
    rest: list[Constraint] = []
    for constraint in constraints:
        c = constraint.form.terms.get(atom)
        (rest if c is None else above if c > 0 else below).append(constraint)
    for x in above:
        for y in below:
            scaled = x.form.scaled(-y.form.terms[atom]) + y.form.scaled(x.form.terms[atom])
            rest.append(Constraint(scaled, x.strict or y.strict).tightened())
    return rest


def _facts_of_atoms(constraints: list[Constraint]) -> list[Constraint]:
    """What holds of the quotients among the atoms: m * (x // m) <= x < m * (x // m) + m."""
    facts: list[Constraint] = []
    seen: set[Expr] = set()
    waiting = [atom for c in constraints for atom in c.form.terms]
    while waiting:
        atom = waiting.pop()
        if atom in seen:
            continue
        seen.add(atom)
        match atom:
            case Call(Op.FLOORDIV, (x, Number() as m)) if (number(m) or 0) > 0:
                inner, period = linear(x), Fraction(number(m) or 1)
            case Call(Op.FLOOR, (x,)):
                inner, period = linear(x), Fraction(1)
            case _:
                continue
        remainder = inner - Linear({atom: period})
        facts.append(Constraint(remainder))
        facts.append(Constraint(Linear({}, period) - remainder, strict=True))
        waiting.extend(inner.terms)
    return facts
