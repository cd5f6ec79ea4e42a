"""Expr -> Side: does it belong to the query, to the key, to both, or to neither?"""

from __future__ import annotations

from attnc.ir.expr import Call, Dim, Expr, Index, IndexName, Number, Row, RowName, Tensor, walk
from attnc.ir.facts import Side

_KEY_SIDE = (RowName.K, RowName.V, IndexName.KEY)
_NEITHER = (IndexName.HEAD, IndexName.BATCH)


def side_of(expr: Expr) -> Side:
    query = key = False
    for node in walk(expr):
        if isinstance(node, Index | Row) and node.name not in _NEITHER:
            key = key or node.name in _KEY_SIDE
            query = query or node.name not in _KEY_SIDE
    if query and key:
        return Side.PAIR
    if query:
        return Side.QUERY
    return Side.KEY if key else Side.CONSTANT


def one_sided(expr: Expr) -> bool:
    return side_of(expr) is not Side.PAIR


def spelled(expr: Expr) -> str:
    """How a message calls the expression: as the user wrote it, on one line."""
    if expr.span is None:
        return f"`{expr.decl.name}`" if isinstance(expr, Tensor) else "this expression"
    return f"`{' '.join(expr.span.text.split())}`"


def structure(expr: Expr) -> str:
    """A text that equal expressions share wherever they stand, to put them in one order."""
    match expr:
        case Call(op, args):
            return f"{op.name}({', '.join(map(structure, args))})"
        case Tensor(decl, axes, runs):
            places = ", ".join("_" if axis is None else structure(axis) for axis in axes)
            return f"{decl.name}[{places}]{runs}"
        case Index(name) | Row(name):
            return str(name.value)
        case Dim(size):
            return str(size)
        case Number(value):
            return repr(value)
    return ""
