"""Expressions: immutable trees with a type on every node and, where they come from a spec, a span.

Built by `call`, which infers the type (ir/types.py) and raises TypeMismatch where there is none.
Two expressions are equal when they say the same, wherever they were written: spans do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction

from attnc.ir.ops import Op
from attnc.ir.sizes import Size
from attnc.ir.types import BAD, BOOL, FLOAT, INT, Kind, Type, infer
from attnc.source import Span


class IndexName(Enum):
    """What an expression may depend on. `i` is the row's position (with the alignment in it)."""

    QUERY = "i"
    KEY = "j"
    HEAD = "h"
    BATCH = "b"


class RowName(Enum):
    """The rows that an expression may read."""

    Q = "q"
    K = "k"
    V = "v"
    O = "o"  # noqa: E741 - the language's name of an output row
    OWN_K = "k[i]"  # the key at the row's own position, in `output`
    OWN_V = "v[i]"


class Role(Enum):
    INPUT = "input"  # given at each call
    PARAM = "param"  # learned
    BUFFER = "buffer"  # fixed


@dataclass(frozen=True, slots=True)
class TensorDecl:
    """A declared tensor: `dims` has one size per axis; `initial` is a param's start or None."""

    name: str
    role: Role
    kind: Kind
    dims: tuple[Size, ...]
    initial: float | None = None
    span: Span | None = field(default=None, compare=False)

    def axis_of(self, dim: str) -> int | None:
        """The number of the axis whose size is this dim (B, H, G, L or S), or None."""
        size = Size.of(dim)
        return self.dims.index(size) if size in self.dims else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expr:
    """Base of all nodes. `weight` and `depth` count the nodes of the tree and its height."""

    span: Span | None = field(default=None, compare=False)

    @property
    def type(self) -> Type:
        raise NotImplementedError

    @property
    def children(self) -> tuple[Expr, ...]:
        return ()

    @property
    def weight(self) -> int:
        return 1

    @property
    def depth(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class Number(Expr):
    """A constant. `pi` and `inf` are numbers too. Booleans are True and False."""

    value: int | float | bool

    @property
    def type(self) -> Type:
        if isinstance(self.value, bool):
            return BOOL
        return INT if isinstance(self.value, int) else FLOAT


@dataclass(frozen=True, slots=True)
class Dim(Expr):
    """A size used as a number: B H G L S d_k d_v or one that the spec names."""

    size: Size

    @property
    def type(self) -> Type:
        return INT


@dataclass(frozen=True, slots=True)
class Index(Expr):
    name: IndexName

    @property
    def type(self) -> Type:
        return INT


@dataclass(frozen=True, slots=True)
class Row(Expr):
    """A row of q, k, v or o. In the clauses `query`, `key` and `value` these are the tensors as
    passed in, everywhere else what those clauses made of them."""

    name: RowName
    size: Size

    @property
    def type(self) -> Type:
        return Type(Kind.FLOAT, (self.size,))


@dataclass(frozen=True, slots=True)
class Tensor(Expr):
    """A declared tensor, read at one place.

    `axes` has one entry per axis of the declaration: the index, or None for an axis that is part
    of the value (at most one; two for the matrix of a matmul). Index(HEAD) on an axis of size G
    means h // (H / G); Index(QUERY) on an axis of size S is the row's position; an axis of size 1
    has Number(0). `runs` reads, instead of the values, the number of value changes along S up to
    the place: two places lie in one run of equal ids where these are equal.
    """

    decl: TensorDecl
    axes: tuple[Expr | None, ...]
    runs: bool = False

    @property
    def type(self) -> Type:
        shape = tuple(d for d, a in zip(self.decl.dims, self.axes, strict=True) if a is None)
        return Type(INT.kind if self.runs else self.decl.kind, shape)

    @property
    def children(self) -> tuple[Expr, ...]:
        return tuple(axis for axis in self.axes if axis is not None)


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """An operation applied to arguments."""

    op: Op
    args: tuple[Expr, ...]
    _type: Type = field(compare=False)
    _weight: int = field(compare=False)
    _depth: int = field(compare=False)

    @property
    def type(self) -> Type:
        return self._type

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args

    @property
    def weight(self) -> int:
        return self._weight

    @property
    def depth(self) -> int:
        return self._depth


@dataclass(frozen=True, slots=True)
class Bad(Expr):
    """Stands for what has been reported already, so that one mistake gives one message."""

    @property
    def type(self) -> Type:
        return BAD


def call(op: Op, *args: Expr | int | float, span: Span | None = None) -> Expr:
    """`op` applied to `args`; Python numbers become constants. Raises TypeMismatch."""
    exprs = tuple(a if isinstance(a, Expr) else Number(a) for a in args)
    if any(a.type == BAD for a in exprs):
        return Bad(span=span)
    return Call(
        op,
        exprs,
        infer(op, tuple(a.type for a in exprs), tuple(constant_size(a) for a in exprs)),
        1 + sum(a.weight for a in exprs),
        1 + max((a.depth for a in exprs), default=0),
        span=span,
    )


def constant_size(expr: Expr) -> Size | None:
    """The size that an integer expression of constants and dims denotes, or None."""
    match expr:
        case Number(value) if isinstance(value, int) and not isinstance(value, bool):
            return Size.of(value)
        case Dim(size):
            return size
        case Call(Op.NEG, (x,)):
            inner = constant_size(x)
            return None if inner is None else Size.of(0) - inner
        case Call(Op.ADD | Op.SUB | Op.MUL | Op.FLOORDIV | Op.DIV as op, (x, y)):
            left, right = constant_size(x), constant_size(y)
            if left is None or right is None:
                return None
            if op is Op.ADD:
                return left + right
            if op is Op.SUB:
                return left - right
            if op is Op.MUL:
                return left * right
            if right.constant == 0:
                return None
            if op is Op.FLOORDIV:
                return left // right
            # exact division, as in d * (d + 1) / 2
            return left * Size((((), Fraction(1, right.constant)),)) if right.constant else None
        case Call(Op.POW, (x, Number(int() as n))) if 0 <= n <= 8:
            base, power = constant_size(x), Size.of(1)
            if base is None:
                return None
            for _ in range(n):
                power = power * base
            return power
    return None


def walk(expr: Expr) -> Iterator[Expr]:
    """The node and all below it, parents first."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def rebuild(expr: Expr, children: tuple[Expr, ...]) -> Expr:
    """The same node over other children."""
    match expr:
        case Call(op):
            return call(op, *children, span=expr.span)
        case Tensor():
            rest = iter(children)
            return replace(expr, axes=tuple(None if a is None else next(rest) for a in expr.axes))
    return expr


def transform(expr: Expr, rule: Callable[[Expr], Expr]) -> Expr:
    """Apply `rule` to every node, children first. Nodes that do not change are shared."""
    children = tuple(transform(child, rule) for child in expr.children)
    if any(new is not old for new, old in zip(children, expr.children, strict=True)):
        expr = rebuild(expr, children)
    return rule(expr)


def substitute(expr: Expr, replacements: dict[Expr, Expr]) -> Expr:
    """Replace nodes that equal a key by its value, from the leaves upward."""
    return transform(expr, lambda node: replacements.get(node, node))


def reads(expr: Expr, *wanted: IndexName | RowName) -> bool:
    """Does the expression read one of these indices or rows?"""
    return any(isinstance(n, Index | Row) and n.name in wanted for n in walk(expr))
