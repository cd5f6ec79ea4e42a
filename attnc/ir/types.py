"""Types of expressions: a kind and a shape, and the rule by which an operation's type follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from attnc.ir.ops import Op, Shape
from attnc.ir.sizes import FloorDiv, Size


class Kind(Enum):
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    BAD = "bad"  # already reported


@dataclass(frozen=True, slots=True)
class Type:
    """`shape` is () for a number, (n,) for a row, (m, n) for the matrix of a matmul."""

    kind: Kind
    shape: tuple[Size, ...] = ()

    @property
    def is_number(self) -> bool:
        return not self.shape and self.kind in (Kind.INT, Kind.FLOAT)

    @property
    def is_row(self) -> bool:
        return len(self.shape) == 1

    def __str__(self) -> str:
        if self.kind is Kind.BOOL:
            return f"a row of {self.shape[0]} booleans" if self.shape else "a boolean"
        if not self.shape:
            return "a number"
        if len(self.shape) == 1:
            return f"a row of {self.shape[0]}"
        return f"a matrix of {self.shape[0]} x {self.shape[1]}"


INT, FLOAT, BOOL, BAD = (Type(kind) for kind in (Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.BAD))


class Mismatch(Enum):
    """What is wrong with an argument; each has a diagnostic of its own."""

    SIZES = "sizes differ"
    ROW_NOT_NUMBER = "a row where a number is wanted"
    NUMBER_NOT_ROW = "a number where a row is wanted"
    BOOLEAN_NOT_NUMBER = "a boolean where a number is wanted"
    NUMBER_NOT_BOOLEAN = "a number where a boolean is wanted"
    ARITY = "wrong number of arguments"
    CONSTANT = "a whole number known at compile time is wanted"
    MATRIX = "a matrix elsewhere than in matmul, or none in it"


@dataclass
class TypeMismatch(Exception):
    """No type follows. `argument` is the number of the argument at fault, from 0."""

    what: Mismatch
    op: Op
    argument: int
    found: Type
    detail: str = ""


def infer(op: Op, types: tuple[Type, ...], sizes: Sequence[Size | None]) -> Type:
    """The type of `op` applied to arguments of these types; `sizes` are the arguments' values
    where they are whole numbers known at compile time. Raises TypeMismatch."""
    if (op.info.arity is not None and len(types) != op.info.arity) or not types:
        raise TypeMismatch(Mismatch.ARITY, op, 0, BAD)
    match op.info.shape:
        case Shape.ARITHMETIC | Shape.DIVISION | Shape.ELEMENTWISE | Shape.POWER:
            shape = _spread(op, types)
            whole = all(t.kind is Kind.INT for t in types)
            if op.info.shape is Shape.POWER:
                exponent = sizes[1].constant if sizes[1] is not None else None
                whole = whole and exponent is not None and exponent >= 0
            elif op.info.shape is not Shape.ARITHMETIC:
                whole = False
            if op is Op.FLOOR and not types[0].shape:
                whole = True
            return Type(Kind.INT if whole else Kind.FLOAT, shape)
        case Shape.COMPARISON:
            return Type(Kind.BOOL, _spread(op, types))
        case Shape.LOGICAL:
            for n, t in enumerate(types):
                if t.kind is not Kind.BOOL:
                    raise TypeMismatch(Mismatch.NUMBER_NOT_BOOLEAN, op, n, t)
            return Type(Kind.BOOL, _common_shape(op, types))
        case Shape.CHOICE:
            if types[0].kind is not Kind.BOOL:
                raise TypeMismatch(Mismatch.NUMBER_NOT_BOOLEAN, op, 0, types[0])
            _spread(op, types[1:], first=1)
            shape = _common_shape(op, types)
            whole = all(t.kind is Kind.INT for t in types[1:])
            return Type(Kind.INT if whole else Kind.FLOAT, shape)
        case Shape.REDUCTION:
            _want_row(op, 0, types[0])
            return FLOAT
        case Shape.ROW_MAP:
            return Type(Kind.FLOAT, _want_row(op, 0, types[0]))
        case Shape.DOT:
            left, right = _want_row(op, 0, types[0]), _want_row(op, 1, types[1])
            if left != right:
                raise TypeMismatch(Mismatch.SIZES, op, 1, types[1], f"{left[0]} and {right[0]}")
            return FLOAT
        case Shape.STRUCTURAL:
            return _structural(op, types, sizes)


def _want_number(op: Op, n: int, found: Type) -> None:
    if found.kind is Kind.BOOL:
        raise TypeMismatch(Mismatch.BOOLEAN_NOT_NUMBER, op, n, found)
    if len(found.shape) == 2:
        raise TypeMismatch(Mismatch.MATRIX, op, n, found)
    if found.shape:
        raise TypeMismatch(Mismatch.ROW_NOT_NUMBER, op, n, found)


def _want_row(op: Op, n: int, found: Type) -> tuple[Size, ...]:
    if found.kind is Kind.BOOL:
        raise TypeMismatch(Mismatch.BOOLEAN_NOT_NUMBER, op, n, found)
    if len(found.shape) == 2:
        raise TypeMismatch(Mismatch.MATRIX, op, n, found)
    if not found.shape:
        raise TypeMismatch(Mismatch.NUMBER_NOT_ROW, op, n, found)
    return found.shape


def _want_constant(op: Op, n: int, found: Type, size: Size | None) -> Size:
    if size is None:
        raise TypeMismatch(Mismatch.CONSTANT, op, n, found)
    return size


def _spread(op: Op, types: tuple[Type, ...], first: int = 0) -> tuple[Size, ...]:
    """The common shape of numbers and rows."""
    for n, t in enumerate(types, first):
        if t.kind is Kind.BOOL:
            raise TypeMismatch(Mismatch.BOOLEAN_NOT_NUMBER, op, n, t)
    return _common_shape(op, types, first)


def _common_shape(op: Op, types: tuple[Type, ...], first: int = 0) -> tuple[Size, ...]:
    shape: tuple[Size, ...] = ()
    for n, t in enumerate(types, first):
        if len(t.shape) == 2:
            raise TypeMismatch(Mismatch.MATRIX, op, n, t)
        if shape and t.shape and shape != t.shape:
            raise TypeMismatch(Mismatch.SIZES, op, n, t, f"{shape[0]} and {t.shape[0]}")
        shape = shape or t.shape
    return shape


def _structural(op: Op, types: tuple[Type, ...], sizes: Sequence[Size | None]) -> Type:
    if op is Op.SIZE:
        _want_row(op, 0, types[0])
        return INT
    if op is Op.CONCAT:
        total = Size.of(0)
        for n, t in enumerate(types):
            if t.shape:
                total = total + _want_row(op, n, t)[0]
            else:
                _want_number(op, n, t)
                total = total + Size.of(1)
        return Type(Kind.FLOAT, (total,))
    if op is Op.OUTER:
        left, right = _want_row(op, 0, types[0]), _want_row(op, 1, types[1])
        return Type(Kind.FLOAT, (left[0] * right[0],))
    if op is Op.SYMMETRIC_POWER:
        return Type(Kind.FLOAT, (_combinations(op, types, sizes),))
    if op is Op.ROLL:
        _want_constant(op, 1, types[1], sizes[1])
        return Type(Kind.FLOAT, _want_row(op, 0, types[0]))
    if op is Op.RANGE:
        return Type(Kind.INT, (_want_constant(op, 0, types[0], sizes[0]),))
    if op is Op.ELEMENT:
        _want_row(op, 0, types[0])
        _want_constant(op, 1, types[1], sizes[1])
        return FLOAT
    if op is Op.SLICE:
        _want_row(op, 0, types[0])
        start, stop, step = (_want_constant(op, n, types[n], sizes[n]) for n in (1, 2, 3))
        return Type(types[0].kind, ((stop - start + step - Size.of(1)) // step,))
    if op is Op.MATMUL:
        if len(types[0].shape) != 2:
            raise TypeMismatch(Mismatch.MATRIX, op, 0, types[0])
        row, wanted = _want_row(op, 1, types[1]), types[0].shape[1]
        if row[0] != wanted:
            raise TypeMismatch(Mismatch.SIZES, op, 1, types[1], f"{wanted} and {row[0]}")
        return Type(Kind.FLOAT, (types[0].shape[0],))
    assert op is Op.ROTATE, op
    row, angle = _want_row(op, 0, types[0]), _want_row(op, 1, types[1])
    if angle[0] + angle[0] != row[0] and angle[0] != row[0] // Size.of(2):
        half = Size.of(FloorDiv(row[0], Size.of(2)))
        raise TypeMismatch(Mismatch.SIZES, op, 1, types[1], f"{half} and {angle[0]}")
    return Type(Kind.FLOAT, row)


def _combinations(op: Op, types: tuple[Type, ...], sizes: Sequence[Size | None]) -> Size:
    """How many multisets of n elements a row has: (d + n - 1)! / (d - 1)! / n!"""
    row = _want_row(op, 0, types[0])[0]
    n = _want_constant(op, 1, types[1], sizes[1]).constant
    if n is None or n < 1:
        raise TypeMismatch(Mismatch.CONSTANT, op, 1, types[1])
    total = Size.of(1)
    for k in range(n):
        total = total * (row + Size.of(k)) * Size((((), Fraction(1, k + 1)),))
    return total
