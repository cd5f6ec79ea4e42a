"""A similarity as a function of one score, the product of a row of the query and one of the key."""

from __future__ import annotations

from dataclasses import dataclass

from attnc.ir.expr import Call, Expr, IndexName, Row, RowName, Tensor, reads, substitute, walk
from attnc.ir.facts import Side
from attnc.ir.ops import Op, Shape
from attnc.ir.plan import Local
from attnc.passes.sides import side_of

_BY_ELEMENT = (
    Shape.ARITHMETIC,
    Shape.DIVISION,
    Shape.POWER,
    Shape.ELEMENTWISE,
    Shape.COMPARISON,
    Shape.LOGICAL,
    Shape.CHOICE,
)


@dataclass(frozen=True, slots=True)
class Product:
    """`of_score` is the expression over Local.SCORE, which is query @ key."""

    of_score: Expr
    query: Expr
    key: Expr


def product_of(pair: Expr) -> Product | None:
    """The one product through which the expression reads both rows; None where there are more, or
    where it reads a pair in another way."""
    products = {n for n in walk(pair) if isinstance(n, Call) and n.op is Op.DOT and _of_pair(n)}
    if len(products) != 1:
        return None
    (product,) = products
    of_score = substitute(pair, {product: Local.SCORE.read()})
    if not _of_numbers(of_score):
        return None
    left, right = product.children
    if side_of(left) is Side.KEY or side_of(right) is Side.QUERY:
        left, right = right, left
    return Product(of_score, left, right)


def _of_numbers(expr: Expr) -> bool:
    """Is it made of numbers of the row, of the key and of the head, and of the positions?"""
    if not expr.type.shape and side_of(expr) is not Side.PAIR:
        return True
    if expr.type.shape or isinstance(expr, Row | Tensor):
        return False
    return all(_of_numbers(child) for child in expr.children)


def _of_pair(node: Expr) -> bool:
    one_sided = all(side_of(child) is not Side.PAIR for child in node.children)
    return one_sided and side_of(node) is Side.PAIR


def is_elementwise(expr: Expr, row: RowName) -> bool:
    """Does each element depend on the row's own element, on sizes and on the head alone?"""
    nodes = list(walk(expr))
    rows = [n for n in nodes if isinstance(n, Row)]
    if not rows or any(n.name is not row for n in rows) or expr.type.shape != rows[0].type.shape:
        return False
    if reads(expr, IndexName.QUERY, IndexName.KEY, IndexName.BATCH):
        return False
    calls_fit = all(n.op.info.shape in _BY_ELEMENT for n in nodes if isinstance(n, Call))
    return calls_fit and not any(isinstance(n, Tensor) for n in nodes)
