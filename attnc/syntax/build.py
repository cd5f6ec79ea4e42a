"""Lark's tree -> the dataclasses of tree.py. Never recursive: the text may nest deeply."""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer_NonRecursive, v_args
from lark.tree import Meta

from attnc.ir.ops import INFIX, Op
from attnc.source import Source, Span
from attnc.syntax import tree

SIGNS = {"≤": "<=", "≥": ">=", "≠": "!=", "·": "@", "∧": "and", "∨": "or", "¬": "not"}
PREFIX = {"-": Op.NEG, "not": Op.NOT}


def ascii_name(text: str) -> str:
    return text.replace("φ", "phi")


@v_args(meta=True, inline=True)
class Builder(Transformer_NonRecursive[Token, Any]):
    """One method per rule or alias of the grammar."""

    def __init__(self, source: Source):
        super().__init__()
        self.source = source

    def span(self, place: Meta | Token) -> Span:
        start, end = getattr(place, "start_pos", 0), getattr(place, "end_pos", 0)
        return Span(self.source, start or 0, end or 0)

    def word(self, token: Token) -> tree.Word:
        return tree.Word(ascii_name(token), self.span(token))

    # the file

    def file(self, meta: Meta, name: Token, *rest: Any) -> tree.Attention:
        return tree.Attention(self.word(name), rest[1:-1], self.span(meta))

    def prelude(self, meta: Meta, *clauses: tree.Clause) -> tuple[tree.Clause, ...]:
        return clauses

    def clause(self, meta: Meta, clause: tree.Clause) -> tree.Clause:
        return clause

    def expression(self, meta: Meta, node: tree.Node) -> tree.Node:
        return node

    # clauses

    def setting(self, meta: Meta, name: Token, value: tree.Node) -> tree.Setting:
        return tree.Setting(self.word(name), value, self.span(meta))

    def let(self, meta: Meta, name: Token, value: tree.Node) -> tree.Let:
        return tree.Let(self.word(name), value, self.span(meta))

    def declaration(
        self,
        meta: Meta,
        role: Token,
        names: tuple[tree.Word, ...],
        kind: Token | None,
        dims: tuple[tree.Node, ...],
        initial: tree.Node | None,
    ) -> tree.Declaration:
        kind_word = None if kind is None else self.word(kind)
        span = self.span(meta)
        return tree.Declaration(self.word(role), names, kind_word, dims, initial, span)

    def names(self, meta: Meta, *names: Token) -> tuple[tree.Word, ...]:
        return tuple(self.word(name) for name in names)

    def dims(self, meta: Meta, *dims: tree.Node) -> tuple[tree.Node, ...]:
        return dims

    def function(
        self, meta: Meta, name: Token, params: tuple[tree.Parameter, ...] | None, body: tree.Node
    ) -> tree.Function:
        return tree.Function(self.word(name), params or (), body, self.span(meta))

    def params(self, meta: Meta, *params: Any) -> tuple[tree.Parameter, ...]:
        return tuple(p for p in params if isinstance(p, tree.Parameter))

    def param(self, meta: Meta, name: Token, default: tree.Node | None) -> tree.Parameter:
        return tree.Parameter(self.word(name), default)

    # expressions

    def number(self, meta: Meta, token: Token) -> tree.Number:
        whole = token.isdigit() and len(token) <= 40
        return tree.Number(int(token) if whole else float(token), span=self.span(meta))

    def name(self, meta: Meta, token: Token) -> tree.Name:
        return tree.Name(ascii_name(token), span=self.span(meta))

    def prefix(self, meta: Meta, sign: Token, operand: tree.Node) -> tree.Prefix:
        op = PREFIX[SIGNS.get(sign, sign)]
        return tree.Prefix(op, operand, span=self.span(meta), depth=operand.depth + 1)

    def infix(self, meta: Meta, left: tree.Node, sign: Token, right: tree.Node) -> tree.Infix:
        op, depth = INFIX[SIGNS.get(sign, sign)], 1 + max(left.depth, right.depth)
        return tree.Infix(op, left, right, self.span(sign), span=self.span(meta), depth=depth)

    def apply(
        self, meta: Meta, name: Token, arguments: tuple[tree.Argument, ...] | None
    ) -> tree.Apply:
        given = arguments or ()
        depth = 1 + max((a.value.depth for a in given), default=0)
        return tree.Apply(self.word(name), given, span=self.span(meta), depth=depth)

    def arguments(self, meta: Meta, *given: Any) -> tuple[tree.Argument, ...]:
        return tuple(a for a in given if isinstance(a, tree.Argument))

    def argument(self, meta: Meta, name: Token | None, value: tree.Node) -> tree.Argument:
        return tree.Argument(None if name is None else self.word(name), value)

    def subscript(self, meta: Meta, base: tree.Node, *items: tree.Node) -> tree.Subscript:
        depth = 1 + max(base.depth, *(item.depth for item in items))
        return tree.Subscript(base, items, span=self.span(meta), depth=depth)

    def slice(self, meta: Meta, *parts: Any) -> tree.Slice:
        start, _, stop, _, step = parts
        given = [part.depth for part in (start, stop, step) if part is not None]
        depth = 1 + max(given, default=0)
        return tree.Slice(start, stop, step, span=self.span(meta), depth=depth)
