"""Expr -> its derivative, for what works element by element: the table of ir/ops.py and chains.

Derivatives at ties and kinks are PyTorch's. A derivative of a row is the row of its elements'
derivatives; where all elements are one number it is that number.
"""

from __future__ import annotations

from functools import cache

from attnc.ir.expr import (
    Call,
    Expr,
    Number,
    Role,
    Tensor,
    TensorDecl,
    call,
    substitute,
    transform,
    walk,
)
from attnc.ir.ops import Op
from attnc.ir.types import Kind
from attnc.passes.resolve import formula
from attnc.passes.simplify import make, number, rewrite, simplify


class NotElementwise(ValueError):
    """The variable stands inside an operation that mixes the elements of a row."""

    def __init__(self, node: Call):
        super().__init__(f"{node.op.info.spelling} does not work element by element")
        self.node = node


def differentiate(expr: Expr, with_respect_to: Expr) -> Expr:
    """The derivative by a leaf, or by any subexpression taken as one variable.

    Raises NotElementwise where the variable stands inside sum, norm, concat and the like.
    """
    shape = with_respect_to.type.shape
    variable = Tensor(TensorDecl("variable", Role.INPUT, Kind.FLOAT, shape), (None,) * len(shape))
    body = simplify(substitute(expr, {with_respect_to: variable}))
    return substitute(_derivative(body, variable, {}), {variable: with_respect_to})


def _derivative(node: Expr, variable: Expr, done: dict[int, Expr]) -> Expr:
    if node == variable:
        return Number(1)
    if not isinstance(node, Call) or not any(n == variable for n in walk(node)):
        return Number(0)
    # shared subtrees are differentiated once
    if id(node) not in done:
        done[id(node)] = _chain(node, variable, done)
    return done[id(node)]


def _chain(node: Call, variable: Expr, done: dict[int, Expr]) -> Expr:
    if node.op is Op.WHERE:
        # chosen, not multiplied: what the other side gives, be it NaN, has no effect
        condition, x, y = node.args
        then = _assume(_derivative(x, variable, done), condition, True)
        other = _assume(_derivative(y, variable, done), condition, False)
        return _make(Op.WHERE, condition, then, other)
    inner = [_derivative(arg, variable, done) for arg in node.args]
    if all(number(d) == 0 for d in inner):
        return Number(0)
    if node.op is Op.POW:
        outer: tuple[Expr, ...] = _power_derivatives(*node.args)
    elif node.op.info.derivatives:
        outer = tuple(_of_table(node.op, n, node.args) for n in range(len(node.args)))
    else:
        raise NotElementwise(node)
    total: Expr = Number(0)
    for d_outer, d_inner in zip(outer, inner, strict=True):
        if number(d_inner) != 0:
            total = _make(Op.ADD, total, _make(Op.MUL, d_outer, d_inner))
    return total


def _power_derivatives(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """By the base without x^(-1) at 0, by the exponent without log(0)."""
    n = number(y)
    by_base = _make(Op.MUL, y, _make(Op.POW, x, _make(Op.SUB, y, 1)))
    if n is None:
        by_base = _make(Op.WHERE, _make(Op.EQ, y, 0), 0, by_base)
    by_exponent = _make(Op.MUL, _make(Op.POW, x, y), _make(Op.LOG, x))
    base = number(x)
    if base is None or base <= 0:
        at_zero = _make(Op.AND, _make(Op.EQ, x, 0), _make(Op.GE, y, 0))
        by_exponent = _make(Op.WHERE, at_zero, 0, by_exponent)
    return by_base, by_exponent


_COMPLEMENT = {
    Op.GE: Op.LT, Op.LT: Op.GE, Op.GT: Op.LE, Op.LE: Op.GT, Op.EQ: Op.NE, Op.NE: Op.EQ
}  # fmt: skip


def _assume(expr: Expr, condition: Expr, holds: bool) -> Expr:
    """The expression where the condition is known, as on one side of a choice."""
    if not isinstance(condition, Call) or condition.op not in _COMPLEMENT:
        return expr
    opposite = call(_COMPLEMENT[condition.op], *condition.args)
    if not any(node in (condition, opposite) for node in walk(expr)):
        return expr
    known: dict[Expr, Expr] = {condition: Number(holds), opposite: Number(not holds)}
    return _simplify(substitute(expr, known))


_ARGUMENTS = tuple(
    Tensor(TensorDecl(name, Role.INPUT, Kind.FLOAT, ()), ()) for name in ("x", "y", "z")
)


@cache
def _parsed(text: str) -> Expr:
    return formula(text, **{arg.decl.name: arg for arg in _ARGUMENTS})


def _of_table(op: Op, argument: int, args: tuple[Expr, ...]) -> Expr:
    """The table's derivative of `op` by one argument, at `args`."""
    text = _parsed(op.info.derivatives[argument])
    return _simplify(substitute(text, dict(zip(_ARGUMENTS, args, strict=False))))


def _simplify(expr: Expr) -> Expr:
    return transform(expr, lambda n: rewrite(n, keep_shape=False) if isinstance(n, Call) else n)


def _make(op: Op, *args: Expr | int) -> Expr:
    return make(op, *args, keep_shape=False)
