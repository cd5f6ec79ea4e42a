"""The numbers that a spec names: its lets, and the head counts and row sizes that it fixes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from attnc.ir.expr import Bad, Dim, Expr, Number
from attnc.ir.sizes import Size
from attnc.ir.types import BAD
from attnc.passes.constants import NotFinite, Value, constant
from attnc.passes.names import Scope
from attnc.source import Span
from attnc.syntax import tree

FIXED_BY = {"H": "heads", "G": "kv_heads", "d_k": "d_k", "d_v": "d_v"}
LARGEST = 1 << 31


@dataclass
class Numbers:
    """Evaluated when first asked for, so that the order of clauses does not matter."""

    scope: Scope
    resolve: Callable[[tree.Node, str], Expr]  # a constant expression of the named clause
    aligned: bool  # is there an alignment, or has its absence been reported?
    _values: dict[str, Value | None] = field(default_factory=dict)
    _active: list[str] = field(default_factory=list)

    @property
    def lets(self) -> dict[str, tree.Let]:
        return self.scope.lets

    def let(self, name: str, span: Span | None = None) -> Expr:
        value = self._evaluate(name, self.lets[name].value, span)
        return Bad(span=span) if value is None else Number(value, span=span)

    def dim(self, word: str, span: Span | None = None) -> Expr:
        """A size of the language as a number: itself, or what the spec fixes it to."""
        fixed = word in FIXED_BY and FIXED_BY[word] in self.scope.settings
        value = self.clause(FIXED_BY[word]) if fixed else None
        if fixed and value is None:
            return Bad(span=span)
        return Dim(Size.of(word), span=span) if value is None else Number(value, span=span)

    def size(self, word: str) -> Size:
        value = self.clause(word)
        return Size.of(word) if value is None else Size.of(value)

    def clause(self, name: str) -> int | None:
        """The positive integer that a clause gives; reported where it is none."""
        setting = self.scope.settings.get(name)
        if setting is None:
            return None
        value = self._evaluate(f"{name} =", setting.value, setting.value.span)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < LARGEST:
            message = f"`{name}` is a positive integer, not `{setting.value.span.text}`"
            self.scope.report("E214", message, setting.value.span, f"e.g. `{name} = 8`")
            return None
        return value

    def number(self, node: tree.Node, clause: str) -> Value | None:
        """The constant that an expression denotes; reported where it is none."""
        expr = self.resolve(node, clause)
        if expr.type == BAD:
            return None
        try:
            value = constant(expr)
        except NotFinite as error:
            self.scope.report("E218", f"the constant {error}", node.span, "give it a finite value")
            return None
        if value is None:
            message = f"`{clause}` wants a constant, and this depends on sizes of the call"
            hint = "only numbers, `let`s and sizes that the spec fixes are known"
            self.scope.report("E221", message, node.span, hint)
        return value

    def _evaluate(self, name: str, node: tree.Node, span: Span | None) -> Value | None:
        if name in self._active:
            shown = name.removesuffix(" =")
            message = f"`{shown}` is defined by itself"
            self.scope.report("E217", message, span or node.span, "give it a number")
            return None
        if name not in self._values:
            self._active.append(name)
            self._values[name] = self.number(node, name.removesuffix(" ="))
            self._active.pop()
        return self._values[name]
