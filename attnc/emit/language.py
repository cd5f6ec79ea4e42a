"""Expressions in the language's own spelling, for people: what `attnc explain` prints."""

from __future__ import annotations

from attnc.ir.expr import Call, Dim, Expr, Index, Number, Row, Tensor
from attnc.ir.ops import ATOM, COMPARISONS, NEGATION, PRODUCT, RIGHT_ASSOCIATIVE, SUM, Op


def spell(expr: Expr) -> str:
    """The text of an expression as a spec would have it."""
    return _spell(expr)[0]


def _at(expr: Expr, level: int) -> str:
    text, own = _spell(expr)
    return text if own >= level else f"({text})"


def _spell(expr: Expr) -> tuple[str, int]:
    """A text and how tightly it binds."""
    match expr:
        case Number(value):
            return _number(value)
        case Dim(size):
            text = str(size)
            return text, ATOM if text.isidentifier() else SUM if " " in text else PRODUCT
        case Index(name) | Row(name):
            return name.value, ATOM
        case Tensor(decl, axes, runs):
            places = zip(decl.dims, axes, strict=True)
            shown = [spell(axis) for dim, axis in places if axis is not None and dim.constant != 1]
            text = f"{decl.name}[{', '.join(shown)}]" if shown else decl.name
            return f"run({text})" if runs else text, ATOM
        case Call(op, args):
            return _call(op, args)
    return "?", ATOM


def _number(value: int | float | bool) -> tuple[str, int]:
    if isinstance(value, bool):
        return ("none" if value else "not none"), ATOM
    text = f"{value:.12g}"
    return text, NEGATION if text.startswith("-") else ATOM


def _call(op: Op, args: tuple[Expr, ...]) -> tuple[str, int]:
    level = op.info.precedence
    match op, args:
        case Op.SLICE, (row, start, stop, step):
            stride = "" if step == Number(1) else f":{spell(step)}"
            return f"{_at(row, ATOM)}[{spell(start)}:{spell(stop)}{stride}]", ATOM
        case Op.ELEMENT, (row, place):
            return f"{_at(row, ATOM)}[{spell(place)}]", ATOM
        case _, (operand,) if level is not None:
            sign = "-" if op is Op.NEG else "not "
            return sign + _at(operand, level), level
        case _, (left, right) if level is not None:
            tight_left = op in RIGHT_ASSOCIATIVE or op in COMPARISONS
            first = _at(left, level + 1 if tight_left else level)
            if op is Op.POW:
                return f"{first}^{_at(right, NEGATION)}", level
            return f"{first} {op.info.spelling} {_at(right, level + 1)}", level
    return f"{op.info.spelling}({', '.join(spell(arg) for arg in args)})", ATOM
