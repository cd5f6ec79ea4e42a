"""Expressions to text: the only place that spells operators and sets parentheses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import lcm
from typing import Any

from attnc.emit.dialects import (
    ATOM,
    COMPARE,
    LOOSE,
    POWER,
    PRODUCT,
    SUM,
    UNARY,
    Apply,
    Dialect,
    Infix,
    Prefix,
    Spelling,
)
from attnc.ir.expr import Call, Dim, Expr, Index, IndexName, Number, Row, RowName, Tensor, walk
from attnc.ir.ops import Op
from attnc.ir.sizes import FloorDiv, Size
from attnc.ir.types import Kind


@dataclass(frozen=True)
class Names:
    """What the leaves are called at one place of a template.

    `atoms` names whole subexpressions and goes before all else. `tensors` holds what a declared
    tensor's read is called; where `places` is not empty, the tensor is what is called so, and it is
    read by index, as `slope[h]`: `places` names the indices that are used on an axis of that dim,
    `runs` the tensors of run numbers. Dims are called as in the spec unless `dims` says so. `laid`
    holds the atoms that are numbers but whose text lies along a row already, `plain` those that are
    Python numbers.
    """

    indices: Mapping[IndexName, str] = field(default_factory=dict)
    rows: Mapping[RowName, str] = field(default_factory=dict)
    tensors: Mapping[str, str] = field(default_factory=dict)
    runs: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[tuple[IndexName, str], str] = field(default_factory=dict)
    dims: Mapping[str, str] = field(default_factory=dict)
    atoms: Mapping[Expr, str] = field(default_factory=dict)
    laid: frozenset[Expr] = frozenset()
    plain: frozenset[Expr] = frozenset()

    def also(self, atoms: Mapping[Expr, str], laid: Iterable[Expr] = ()) -> Names:
        """These names and more atoms."""
        return replace(self, atoms={**self.atoms, **atoms}, laid=self.laid | frozenset(laid))


class UnknownName(LookupError):
    """A template gave no name to a leaf that an expression reads."""


@dataclass(frozen=True, slots=True)
class _Text:
    """A text and how tightly it binds; `plain` where it is a Python number, not a tensor, `row`
    where it has the axis of a row."""

    text: str
    level: int
    plain: bool = False
    row: bool = False

    def at(self, level: int) -> str:
        return self.text if self.level >= level else f"({self.text})"


def show(expr: Expr, dialect: Dialect, names: Names) -> str:
    """The text of an expression. Raises UnknownName."""
    return _Printer(dialect, names).show(expr).text


def size_text(size: Size, names: Names | None = None) -> str:
    """The text of a size as whole-number arithmetic over dims."""
    return _size(size, names or Names()).text


def _size(size: Size, names: Names) -> _Text:
    common = lcm(*(c.denominator for _, c in size.terms))
    parts: list[str] = []
    for monomial, coefficient in size.terms:
        number = int(coefficient * common)
        factors = [
            _size_quotient(a, names) if isinstance(a, FloorDiv) else names.dims.get(a, a)
            for a in monomial
        ]
        if abs(number) != 1 or not factors:
            factors.insert(0, str(abs(number)))
        sign = "-" if number < 0 else "+"
        term = " * ".join(factors)
        parts.append(f"{sign} {term}" if parts else ("-" if number < 0 else "") + term)
    text = " ".join(parts) or "0"
    if common != 1:
        return _Text(f"({text}) // {common}", PRODUCT, True)
    if len(parts) > 1:
        return _Text(text, SUM, True)
    level = UNARY if text.startswith("-") else PRODUCT if " " in text else ATOM
    return _Text(text, level, True)


def _size_quotient(atom: FloorDiv, names: Names) -> str:
    top, bottom = _size(atom.numerator, names), _size(atom.denominator, names)
    return f"({top.at(PRODUCT)} // {bottom.at(UNARY)})"


def is_wild(expr: Expr) -> bool:
    """May the expression or its slope be infinite, or no number, where its operands are finite?
    A product of rows counts as an operand."""
    if isinstance(expr, Call) and expr.op is Op.DOT:
        return False
    wild = isinstance(expr, Call) and _is_wild_call(expr)
    return wild or any(is_wild(c) for c in expr.children)


def _is_wild_call(expr: Call) -> bool:
    match expr:
        case Call(Op.DIV | Op.FLOORDIV | Op.MOD, (_, y)):
            return _varies(y)
        case Call(Op.POW, (_, Number(int() as n))) if n >= 0:
            return False
        case Call(Op.EXP | Op.LOG | Op.LOG2 | Op.SQRT | Op.POW | Op.NORM | Op.SOFTMAX):
            return _varies(expr)
    return False


def _varies(expr: Expr) -> bool:
    """Does a gradient flow through it?"""
    return any(isinstance(n, Row | Tensor) and n.type.kind is Kind.FLOAT for n in walk(expr))


class _Printer:
    def __init__(self, dialect: Dialect, names: Names):
        self.dialect, self.names = dialect, names

    def show(self, expr: Expr) -> _Text:
        if self.names.atoms and expr in self.names.atoms:
            plain, row = expr in self.names.plain, expr in self.names.laid
            return _Text(self.names.atoms[expr], ATOM, plain, row)
        match expr:
            case Number(value):
                return self._number(value)
            case Dim(size):
                return _size(size, self.names)
            case Index(name):
                return self._leaf(self.names.indices, name, f"index {name.value}")
            case Row(name):
                return self._leaf(self.names.rows, name, f"row {name.value}")
            case Tensor():
                return self._tensor(expr)
            case Call():
                return self._call(expr)
        raise UnknownName(type(expr).__name__)

    def _leaf(self, table: Mapping[Any, str], key: object, what: str) -> _Text:
        if key not in table:
            raise UnknownName(f"{what} has no name here")
        return _Text(table[key], ATOM)

    def _number(self, value: int | float | bool) -> _Text:
        if isinstance(value, float):
            if math.isnan(value):
                return _Text('float("nan")', ATOM, True)
            if abs(value) > self.dialect.largest:
                sign, level = ("-", UNARY) if value < 0 else ("", ATOM)
                return _Text(sign + self.dialect.infinity, level, True)
            if abs(value) < 1 / self.dialect.largest:
                value = 0.0
        return _Text(repr(value), UNARY if value < 0 else ATOM, True)

    def _tensor(self, expr: Tensor) -> _Text:
        table = self.names.runs if expr.runs else self.names.tensors
        name = self._leaf(table, expr.decl.name, f"tensor {expr.decl.name}").text
        if not self.names.places:
            return _Text(name, ATOM)
        value_axes = [n for n, axis in enumerate(expr.axes) if axis is None]
        last = list(range(len(expr.axes) - len(value_axes), len(expr.axes)))
        if value_axes and value_axes != last:
            name += f".movedim({tuple(value_axes)}, {tuple(n - len(expr.axes) for n in last)})"
        indices = [
            self._place(axis, size)
            for axis, size in zip(expr.axes, expr.decl.dims, strict=True)
            if axis is not None
        ]
        return _Text(f"{name}[{', '.join(indices)}]" if indices else name, ATOM)

    def _place(self, axis: Expr, size: Size) -> str:
        """An index as it is used on an axis; one that may lie outside is clamped."""
        if isinstance(axis, Index):
            named = self.names.places.get((axis.name, str(size)))
            return named or self.show(axis).text
        if isinstance(axis, Number):
            return self.show(axis).text
        index, end = self.show(axis), _size(size - Size.of(1), self.names).text
        if index.plain:
            return f"min(max({index.text}, 0), {end})"
        return f"{index.at(ATOM)}.clamp(0, {end})"

    def _call(self, expr: Call) -> _Text:
        match expr:
            case Call(Op.DIV, (x, Call(Op.NORM, (y,)))) if x == y and self._spells_rows():
                return _Text(f"_unit({self.show(x).text})", ATOM)
            case Call(Op.FLOOR, (Call(Op.DIV, (x, y)),)) if _whole(x) and _whole(y):
                return self._spell(Op.FLOORDIV, expr, (x, y))
            case Call(Op.FLOOR, (x,)) if _whole(x):
                return self.show(x)
            case Call(Op.SIZE, (x,)):
                return _size(x.type.shape[0], self.names)
            case Call(Op.SLICE, (x, start, stop, Number(1))) if self._spells_rows():
                ends = f"{self.show(start).text}:{self.show(stop).text}"
                return _Text(f"{self.show(x).at(ATOM)}[..., {ends}]", ATOM)
            case Call(Op.POW, (x, Number(int() as n))) if self._multiplies(n):
                base = self.show(x) if _whole(expr) else self._real(x, self.show(x), True)
                return _Text(f"_tl_powi({base.text}, {n})", ATOM)
            case Call(Op.POW, (Number(2), y)) if self._multiplies(2) and not _whole(expr):
                return _Text(f"tl.exp2({self._real(y, self.show(y), True).text})", ATOM)
        return self._spell(expr.op, expr, expr.args)

    def _spells_rows(self) -> bool:
        return Op.NORM in self.dialect.spellings

    def _multiplies(self, exponent: int) -> bool:
        """Is a power with this exponent made by multiplying, since there is no such operator?"""
        return not isinstance(self.dialect.spellings[Op.POW], Infix) and 0 <= exponent <= 64

    def _spell(self, op: Op, expr: Call, args: tuple[Expr, ...]) -> _Text:
        shown = [self.show(a) for a in args]
        plain = bool(self.dialect.static) and all(t.plain for t in shown) and op is not Op.RANGE
        spelling = self._spelling(op, expr, shown, plain)
        if plain and (op in self.dialect.static or not isinstance(spelling, Apply)):
            return self._join(spelling, shown, True)
        if op is Op.WHERE and self.dialect.static and not shown[0].plain:
            shown = self._choices(args, shown)
        real = [not _whole(a) and not t.plain for a, t in zip(args, shown, strict=True)]
        beside = any(real) and not isinstance(spelling, Apply)
        row = any(t.row or a.type.shape for a, t in zip(args, shown, strict=True))
        row = op is Op.CONCAT or (row and op not in _OWN_SHAPES)
        ready = []
        for n, (arg, text) in enumerate(zip(args, shown, strict=True)):
            if _wants_real(expr, n) and not beside:
                text = self._real(arg, text, isinstance(spelling, Apply))
            if row and not (arg.type.shape or text.plain or text.row):
                text = self._apply(self.dialect.spread, [text])
            ready.append(text)
        bare = op is Op.WHERE and (shown[0].plain or all(t.plain for t in shown[1:]))
        if plain or bare:
            ready = [self._lifted(a, t, expr) for a, t in zip(args, ready, strict=True)]
        return replace(self._join(spelling, ready, False), row=row and not expr.type.shape)

    def _spelling(self, op: Op, expr: Call, shown: list[_Text], plain: bool) -> Spelling:
        if plain and op in self.dialect.static:
            return self.dialect.static[op]
        if op is Op.WHERE and shown[0].plain and op in self.dialect.static:
            # one side could be a number along a row, so only numbers are chosen from by Python
            return self.dialect.spellings[op] if expr.type.shape else self.dialect.static[op]
        if _whole(expr) and op in self.dialect.integer:
            return self.dialect.integer[op]
        return self.dialect.spellings[op]

    def _choices(self, args: tuple[Expr, ...], shown: list[_Text]) -> list[_Text]:
        """The branches of a `where`; one that could poison a gradient reads its leaves guarded."""
        chosen, other = shown[0].text, f"~{shown[0].at(ATOM)}"
        if shown[0].plain:
            return shown
        branches = list(shown[1:])
        for n, place in enumerate((chosen, other)):
            if is_wild(args[n + 1]):
                names = guard(
                    args[n + 1],
                    place,
                    self.dialect,
                    self.names,
                    shown[0].row or bool(args[0].type.shape),
                )
                branches[n] = _Printer(self.dialect, names).show(args[n + 1])
        return [shown[0], *branches]

    def _real(self, arg: Expr, text: _Text, call: bool) -> _Text:
        """A whole number among real ones. Beside an operator a constant needs no conversion."""
        if not _whole(arg):
            return text
        if isinstance(arg, Number):
            return self._number(float(arg.value)) if call else text
        if text.plain and self.dialect.static:
            return text
        return self._apply(self.dialect.cast, [text])

    def _lifted(self, arg: Expr, text: _Text, expr: Call) -> _Text:
        """A tensor in place of a Python number, where the target's functions take no other."""
        bool_kept = arg.type.kind is Kind.BOOL and not expr.type.shape
        if not (self.dialect.static and text.plain) or bool_kept:
            return text
        whole = _whole(expr) or arg.type.kind is Kind.BOOL
        lift = self.dialect.lift_whole if whole else self.dialect.lift
        return self._apply(lift, [text])

    def _join(self, spelling: Spelling, shown: list[_Text], plain: bool) -> _Text:
        match spelling:
            case Infix(symbol, level):
                left, right = shown
                # ** groups to the right and takes a sign there; comparisons do not chain
                power = level == POWER
                first = left.at(level + (power or level == COMPARE))
                second = right.at(UNARY if power else level + 1)
                return _Text(f"{first} {symbol} {second}", level, plain)
            case Prefix(symbol, level):
                return _Text(symbol + shown[0].at(level), level, plain)
            case Apply():
                text = self._apply(spelling, shown)
                return _Text(text.text, text.level, plain)

    @staticmethod
    def _apply(spelling: Apply, shown: list[_Text]) -> _Text:
        texts = [t.at(ATOM if spelling.tight else LOOSE) for t in shown]
        return _Text(spelling.text.format(*texts, args=", ".join(texts)), ATOM)


_OWN_SHAPES = (
    Op.DOT,
    Op.SUM,
    Op.MEAN,
    Op.AMAX,
    Op.NORM,
    Op.ROLL,
    Op.SLICE,
    Op.ELEMENT,
    Op.RANGE,
    Op.MATMUL,
    Op.ROTATE,
    Op.OUTER,
    Op.SYMMETRIC_POWER,
)
# all arguments of these but the first count something
_COUNTED = (Op.SYMMETRIC_POWER, Op.ROLL, Op.SLICE, Op.ELEMENT, Op.RANGE)


def _whole(expr: Expr) -> bool:
    return expr.type.kind is Kind.INT


def _wants_real(expr: Call, argument: int) -> bool:
    return expr.type.kind is Kind.FLOAT and not (expr.op in _COUNTED and argument)


def guard(expr: Expr, chosen: str, dialect: Dialect, names: Names, along: bool = False) -> Names:
    """Names under which no gradient reaches a leaf where `chosen` is false; `along` says that
    `chosen` lies along a row.

    Products of rows count as leaves: they are cheap and their slopes are finite.
    """
    printer = _Printer(dialect, names)
    spread = f"{chosen}[..., None]" if chosen.isidentifier() else f"({chosen})[..., None]"
    atoms: dict[Expr, str] = {}
    laid: set[Expr] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        leaf = isinstance(node, Row | Tensor) or (isinstance(node, Call) and node.op is Op.DOT)
        if not leaf and node not in names.atoms:
            stack.extend(node.children)
        elif node.type.kind is Kind.FLOAT and len(node.type.shape) < 2:
            text = printer.show(node)
            if along and not (node.type.shape or text.row):
                laid.add(node)
                text = _Text(text.at(ATOM) + "[..., None]", ATOM)
            row = bool(node.type.shape) or text.row
            atoms[node] = f"_only({spread if row and not along else chosen}, {text.text})"
    return names.also(atoms, laid)
