"""Boolean expressions as formulas over linear constraints, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from attnc.ir.expr import Call, Dim, Expr, Index, IndexName, Number, Tensor, call, walk
from attnc.ir.ops import Op
from attnc.ir.sizes import Size
from attnc.ir.types import Kind
from attnc.passes.linear import Constraint, Linear, contradictory, linear

MAX_BRANCHES = 256
MAX_SPLITS = 6  # of abs, min, max and where inside one comparison


@dataclass(frozen=True)
class All:
    parts: tuple[Formula, ...] = ()


@dataclass(frozen=True)
class AnyOf:
    parts: tuple[Formula, ...] = ()


@dataclass(frozen=True)
class Unknown:
    """May hold or not: what tensors decide."""


Formula = All | AnyOf | Constraint | Unknown
_OPPOSITE = {
    Op.LT: Op.GE, Op.GE: Op.LT, Op.LE: Op.GT, Op.GT: Op.LE, Op.EQ: Op.NE, Op.NE: Op.EQ
}  # fmt: skip


def formula(expr: Expr, holds: bool = True) -> Formula:
    """The expression, or its negation, as a formula that is true wherever that is."""
    match expr:
        case Number(bool() as value):
            return All() if value is holds else AnyOf()
        case Call(Op.NOT, (x,)):
            return formula(x, not holds)
        case Call(Op.AND | Op.OR as op, args):
            parts = tuple(formula(arg, holds) for arg in args)
            return All(parts) if (op is Op.AND) is holds else AnyOf(parts)
        case Call(op, (x, y)) if op in _OPPOSITE:
            if not holds and decided_by_tensors(expr):
                return Unknown()
            return _comparison(op if holds else _OPPOSITE[op], x, y)
    return Unknown()


def decided_by_tensors(comparison: Expr) -> bool:
    """May the comparison be false though its numbers say otherwise: NaN, or a row of keys at an i
    that is outside?"""
    return any(
        isinstance(node, Tensor)
        and (node.decl.kind is Kind.FLOAT or Index(IndexName.QUERY) in node.axes)
        for node in walk(comparison)
    )


def _comparison(op: Op, x: Expr, y: Expr) -> Formula:
    difference = linear(y) - linear(x)
    match op:
        case Op.LE:
            return _split(difference, False)
        case Op.LT:
            return _split(difference, True)
        case Op.GE:
            return _split(difference.scaled(-1), False)
        case Op.GT:
            return _split(difference.scaled(-1), True)
        case Op.EQ:
            return All((_split(difference, False), _split(difference.scaled(-1), False)))
    return AnyOf((_split(difference, True), _split(difference.scaled(-1), True)))


def _split(form: Linear, strict: bool, depth: int = 0) -> Formula:
    """form >= 0 (or > 0), with abs, min, max and where resolved into their cases."""
    for atom, c in form.terms.items():
        if depth == MAX_SPLITS or not isinstance(atom, Call):
            continue
        if atom.op is Op.WHERE:
            condition, x, y = atom.args
            then = _split(form.replace(atom, linear(x)), strict, depth + 1)
            other = _split(form.replace(atom, linear(y)), strict, depth + 1)
            return AnyOf((
                All((formula(condition), then)), All((formula(condition, False), other))
            ))  # fmt: skip
        if (cases := _cases(atom)) is not None:
            largest, values = cases
            parts = tuple(_split(form.replace(atom, v), strict, depth + 1) for v in values)
            # a sum with c * max(..) is above 0 for some case, with -c * max(..) for every case
            return AnyOf(parts) if largest is (c > 0) else All(parts)
    return Constraint(form, strict).tightened()


def _cases(atom: Call) -> tuple[bool, tuple[Linear, ...]] | None:
    """Is it the largest (else the smallest) of which values?"""
    match atom.op, atom.args:
        case Op.ABS, (x,):
            return True, (linear(x), linear(x).scaled(-1))
        case Op.RELU, (x,):
            return True, (linear(x), Linear({}))
        case Op.MAX, (x, y):
            return True, (linear(x), linear(y))
        case Op.MIN, (x, y):
            return False, (linear(x), linear(y))
        case Op.CLAMP, (x, low, high):
            return False, (linear(call(Op.MAX, x, low)), linear(high))
    return None


def domain() -> list[Constraint]:
    """0 <= j < S, and no index or count but the row's position is negative."""
    j, size = Index(IndexName.KEY), Dim(Size.of("S"))
    one = Fraction(1)
    atoms = (j, size, Index(IndexName.HEAD), Index(IndexName.BATCH), Dim(Size.of("L")))
    found = [Constraint(Linear({atom: one})) for atom in atoms]
    found.append(Constraint(Linear({size: one, j: -one}, -one)))
    return found


def impossible(*formulas: Formula) -> bool:
    """Is it certain that they never hold at once, for keys that exist?"""
    return _Search().refute(list(formulas), domain())


def implies(premise: Expr, conclusion: Expr) -> bool:
    """Is it certain that the conclusion holds wherever the premise does?"""
    return impossible(formula(premise), formula(conclusion, False))


class _Search:
    """Goes through the cases of the alternatives."""

    def __init__(self) -> None:
        self.branches = 0

    def refute(self, formulas: list[Formula], known: list[Constraint]) -> bool:
        known, alternatives = list(known), []
        waiting = list(formulas)
        while waiting:
            match waiting.pop():
                case All(parts):
                    waiting.extend(parts)
                case AnyOf() as alternative:
                    alternatives.append(alternative)
                case Constraint() as constraint:
                    known.append(constraint)
                case Unknown():
                    pass
        if contradictory(known):
            return True
        if not alternatives:
            return False
        first, *rest = sorted(alternatives, key=lambda a: len(a.parts))
        self.branches += len(first.parts)
        if self.branches > MAX_BRANCHES:
            return False
        return all(self.refute([part, *rest], known) for part in first.parts)
