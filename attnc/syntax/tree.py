"""The syntax tree: what is written, with its place. Knows no meaning."""

from __future__ import annotations

from dataclasses import dataclass, field

from attnc.ir.ops import Op
from attnc.source import Span


@dataclass(frozen=True, slots=True)
class Word:
    """A name at a place, in its ASCII spelling."""

    text: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    span: Span = field(compare=False)
    depth: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Number(Node):
    value: int | float


@dataclass(frozen=True, slots=True)
class Name(Node):
    text: str


@dataclass(frozen=True, slots=True)
class Prefix(Node):
    op: Op
    operand: Node


@dataclass(frozen=True, slots=True)
class Infix(Node):
    op: Op
    left: Node
    right: Node
    sign: Span = field(compare=False)  # the operator's own place


@dataclass(frozen=True, slots=True)
class Argument:
    name: Word | None
    value: Node


@dataclass(frozen=True, slots=True)
class Apply(Node):
    function: Word
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Slice(Node):
    start: Node | None
    stop: Node | None
    step: Node | None


@dataclass(frozen=True, slots=True)
class Subscript(Node):
    base: Node
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """NAME = VALUE: a clause."""

    name: Word
    value: Node
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Let:
    name: Word
    value: Node
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Declaration:
    """input, param or buffer NAMES : KIND [DIMS] = INITIAL."""

    role: Word
    names: tuple[Word, ...]
    kind: Word | None
    dims: tuple[Node, ...]
    initial: Node | None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    name: Word
    default: Node | None


@dataclass(frozen=True, slots=True)
class Function:
    name: Word
    parameters: tuple[Parameter, ...]
    body: Node
    span: Span = field(compare=False)


Clause = Setting | Let | Declaration | Function


@dataclass(frozen=True, slots=True)
class Attention:
    name: Word
    clauses: tuple[Clause, ...]
    span: Span = field(compare=False)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right below a node, in the order of the text."""
    match node:
        case Prefix(operand=operand):
            return (operand,)
        case Infix(left=left, right=right):
            return (left, right)
        case Apply(arguments=arguments):
            return tuple(argument.value for argument in arguments)
        case Subscript(base=base, items=items):
            return (base, *items)
        case Slice(start=start, stop=stop, step=step):
            return tuple(part for part in (start, stop, step) if part is not None)
    return ()
