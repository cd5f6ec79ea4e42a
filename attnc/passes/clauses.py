"""The clauses' values -> the fields of AttnSpec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from attnc.ir.expr import Bad, Expr, IndexName, Row, RowName
from attnc.ir.sizes import Size
from attnc.ir.spec import Form, Normalizer
from attnc.ir.types import BAD, Kind
from attnc.passes.constants import NotFinite, constant
from attnc.passes.expressions import Expressions
from attnc.passes.indexing import OwnAxes
from attnc.passes.names import Scope, nearest
from attnc.passes.numbers import Numbers
from attnc.passes.resolver import Place
from attnc.syntax import tree

CHUNKS = (16, 32, 64, 128, 256)
KEY_SIDE = frozenset("jhb")
TENSOR_HINT = "declare what it should depend on: `input g : [B, H, S]`, made from x by the layer"

Member = TypeVar("Member", bound=Enum)


@dataclass
class Clauses:
    """Reads the settings of one attention, one method per kind of value."""

    scope: Scope
    numbers: Numbers
    expressions: Expressions

    # words and numbers

    def word(self, name: str, members: type[Member]) -> Member | None:
        """The member that a clause names; None where it is absent or reported."""
        setting = self.scope.settings.get(name)
        if setting is None:
            return None
        words = [member.value for member in members]
        text = setting.value.text if isinstance(setting.value, tree.Name) else ""
        if text in words:
            return members(text)
        self.refuse(name, setting.value, words)
        return None

    def auto(self, name: str) -> bool:
        """Is the clause absent, or `auto`?"""
        setting = self.scope.settings.get(name)
        return setting is None or _is_name(setting.value, "auto")

    def form(self) -> Form | None:
        setting = self.scope.settings.get("form")
        if setting is None or _is_name(setting.value, "auto"):
            return None
        words = [form.value for form in Form]
        if isinstance(setting.value, tree.Name) and setting.value.text in words:
            return Form(setting.value.text)
        self.refuse("form", setting.value, ["auto", *words])
        return None

    def chunk(self) -> int | None:
        if self.auto("chunk"):
            return None
        value = self.numbers.clause("chunk")
        if value is not None and value not in CHUNKS:
            self.refuse("chunk", self.scope.settings["chunk"].value, ["auto", *map(str, CHUNKS)])
            return None
        return value

    def heads(self, name: str) -> int | None:
        """`kv_heads` or `v_heads`, which divide `heads`."""
        own, heads = self.numbers.clause(name), self.numbers.clause("heads")
        if own is not None and heads is not None and heads % own:
            message = f"`{name}` = {own} does not divide `heads` = {heads}"
            row = "k" if name == "kv_heads" else "v"
            hint = f"each head of {row} serves as many heads of q: write {_divisors(heads)}"
            self.scope.report("E216", message, self.scope.settings[name].value.span, hint)
        return own

    def refuse(self, name: str, value: tree.Node, words: list[str]) -> None:
        shown = value.span.text
        close = nearest(shown, words)
        choices = ", ".join(f"`{word}`" for word in words)
        hint = f"did you mean `{close}`? It is one of {choices}" if close else f"write {choices}"
        self.scope.report("E214", f"`{name}` cannot be `{shown}`", value.span, hint)

    # expressions

    def expression(self, name: str, place: Place) -> Expr | None:
        setting = self.scope.settings.get(name)
        return None if setting is None else self.expressions.clause(setting.value, place)

    def row(self, name: str, place: Place, default: Row) -> Expr:
        found = self.expression(name, place)
        if found is None:
            return default
        return self.want_row(found, f"`{name}`", self.scope.settings[name].value)

    def similarity(self, q: Row, k: Row) -> Expr:
        place = Place(
            "similarity", {"q": q, "k": k}, frozenset("ijhb"), OwnAxes(),
            hint="a similarity compares q and k; what happens to v is `value` and `output`",
        )  # fmt: skip
        setting = self.scope.settings.get("similarity")
        if setting is None:
            self.missing("similarity", "e.g. `similarity = exp(q @ k / sqrt(d_k))`")
            return Bad()
        if isinstance(setting.value, tree.Name) and setting.value.text in ("softmax", "dot"):
            hint = "write `similarity = exp(q @ k / sqrt(d_k))` with `normalizer = on`"
            message = (
                f"`similarity` is an expression in q and k, not the word `{setting.value.text}`"
            )
            self.scope.report("E214", message, setting.value.span, hint)
            return Bad()
        found = self.expressions.clause(setting.value, place)
        hint = "the dot product of two rows is written `q @ k`"
        return self.want_number(found, "`similarity`", setting.value, hint)

    def mask(self) -> Expr | None:
        setting = self.scope.settings.get("mask")
        if setting is None or _is_name(setting.value, "none"):
            return None
        if isinstance(setting.value, tree.Name) and setting.value.text in ("on", "off", "auto"):
            self.refuse("mask", setting.value, ["none", "causal", "window(128)"])
            return None
        place = Place(
            "mask", {}, frozenset("ijhb"), OwnAxes(),
            hint="a mask says by positions which pairs exist, e.g. `causal` or `i - j < 128`",
        )  # fmt: skip
        found = self.expressions.clause(setting.value, place)
        if found.type == BAD or (found.type.kind is Kind.BOOL and not found.type.shape):
            return found
        message = f"a mask is a condition, and `{_text(setting.value)}` is {found.type}"
        hint = "compare it, e.g. `j <= i`; a weight is part of `similarity`"
        self.scope.report("E209", message, setting.value.span, hint)
        return Bad()

    def decay(self) -> Expr | None:
        setting = self.scope.settings.get("decay")
        if setting is None or _is_name(setting.value, "none"):
            return None
        found = self.expressions.clause(setting.value, self.key_side("decay"))
        if found.type.is_row and found.type.kind is not Kind.BOOL:
            return found
        hint = "a decay is a number per token and head, or a row of one per channel"
        return self.want_number(found, "`decay`", setting.value, hint)

    def beta(self) -> Expr | None:
        """The write strength of `update = delta(beta)`."""
        setting = self.scope.settings.get("update")
        if setting is None or _is_name(setting.value, "add"):
            return None
        value = setting.value
        hint = "write `add`, or `delta(beta)` with `input beta : [B, H, S]`"
        if not (isinstance(value, tree.Apply) and value.function.text == "delta"):
            message = f"`update` cannot be `{_text(value)}`"
            self.scope.report("E214", message, value.span, hint)
            return None
        if len(value.arguments) != 1 or value.arguments[0].name is not None:
            self.scope.report("E205", "`delta` wants the write strength alone", value.span, hint)
            return None
        strength = value.arguments[0].value
        found = self.expressions.clause(strength, self.key_side("update"))
        return self.want_number(found, "the write strength", strength, "it is one number per key")

    def key_side(self, clause: str) -> Place:
        own = OwnAxes(key=IndexName.KEY)
        return Place(clause, {}, KEY_SIDE, own, hint=TENSOR_HINT)

    def output(self, o: Size, q: Row, k: Row) -> Expr:
        rows = {"o": Row(RowName.O, o), "q": q}
        own_rows = {"k": Row(RowName.OWN_K, k.size), "v": Row(RowName.OWN_V, o)}
        place = Place("output", rows, frozenset("ihb"), ROW_SIDE, own_rows)
        setting = self.scope.settings.get("output")
        if setting is None:
            return rows["o"]
        found = self.want_row(self.expressions.clause(setting.value, place), "`output`",
                              setting.value)  # fmt: skip
        if found.type != BAD and found.type.shape != (o,):
            message = f"`output` is a row of {o}, as o is, and this is {found.type}"
            self.scope.report("E206", message, setting.value.span, "its size is o's size")
        return found

    # the normalizer

    def normalizer(self) -> Normalizer | None:
        setting = self.scope.settings.get("normalizer")
        if setting is None:
            self.missing(
                "normalizer",
                "write `normalizer = on` to divide each row by its sum of weights, as softmax and"
                " normalized linear attention do, or `normalizer = off`",
            )
            return None
        value = setting.value
        if _is_name(value, "off"):
            return None
        if _is_name(value, "on"):
            return Normalizer()
        if isinstance(value, tree.Apply) and value.function.text == "on":
            return self._normalizer_arguments(value)
        self.refuse("normalizer", value, ["on", "off", "on(eps = 1e-6)", "on(floor = 1)"])
        return None

    def _normalizer_arguments(self, value: tree.Apply) -> Normalizer:
        given: dict[str, Expr] = {}
        signed = False
        hint = "write `on(eps = 1e-6)`, `on(floor = 1)`, `on(signed)` or `on(eps = 1e-6, signed)`"
        for argument in value.arguments:
            name, node = argument.name, argument.value
            if name is None and _is_name(node, "signed") and not signed:
                signed = True
            elif name is not None and name.text in ("eps", "floor") and not given:
                given[name.text] = self._added(name.text, node)
            elif name is not None and name.text in ("eps", "floor"):
                message = "`on` takes one of eps and floor, once"
                self.scope.report("E205", message, name.span, hint)
            else:
                shown = name.span if name is not None else node.span
                message = f"`on` has no argument `{_shown(shown.text)}`"
                self.scope.report("E205", message, shown, hint)
        return Normalizer(given.get("eps"), given.get("floor"), signed)

    def _added(self, name: str, node: tree.Node) -> Expr:
        place = Place(f"{name}", {}, frozenset("h"), hint="it may depend on the head alone")
        found = self.want_number(
            self.expressions.clause(node, place), f"`{name}`", node, "it is one number per head"
        )
        try:
            value = constant(found)
        except NotFinite:
            return found
        if value is not None and value < 0:
            self.scope.report("E214", f"`{name}` is not negative", node.span, "write 0 or more")
        return found

    # what is wanted

    def missing(self, name: str, hint: str) -> None:
        if name not in self.scope.broken:
            span = self.scope.attention_name
            self.scope.report_missing("E215", f"the clause `{name}` is missing", span, hint)

    def want_number(self, found: Expr, what: str, node: tree.Node, hint: str) -> Expr:
        if found.type == BAD or found.type.is_number:
            return found
        if found.type.kind is Kind.BOOL:
            message = f"{what} is a number, and `{_text(node)}` is {found.type}"
            self.scope.report("E209", message, node.span, hint or "write `where(condition, 1, 0)`")
        else:
            message = f"{what} is a number, and `{_text(node)}` is {found.type}"
            self.scope.report("E207", message, node.span, hint)
        return Bad()

    def want_row(self, found: Expr, what: str, node: tree.Node) -> Expr:
        if found.type == BAD or (found.type.is_row and found.type.kind is not Kind.BOOL):
            return found
        code = "E209" if found.type.kind is Kind.BOOL else "E208"
        code = "E222" if len(found.type.shape) == 2 else code
        message = f"{what} is a row, and `{_text(node)}` is {found.type}"
        hint = "a product of a number and a row is a row: `o * 2`"
        self.scope.report(code, message, node.span, hint)
        return Bad()


ROW_SIDE = OwnAxes(query=IndexName.QUERY, key=IndexName.QUERY)


def row_places(q: Row, k: Row, v: Row) -> Mapping[str, Place]:
    """What `query`, `key` and `value` may read: the rows as passed in."""
    key_own = OwnAxes(key=IndexName.KEY)
    return {
        "query": Place("query", {"q": q}, frozenset("ihb"), ROW_SIDE,
                       hint="`query` reads q and declared tensors"),
        "key": Place("key", {"k": k}, KEY_SIDE, key_own,
                     hint="`key` reads k and declared tensors"),
        "value": Place("value", {"k": k, "v": v}, KEY_SIDE, key_own,
                       hint="`value` reads v, k and declared tensors"),
    }  # fmt: skip


def _is_name(node: tree.Node, word: str) -> bool:
    return isinstance(node, tree.Name) and node.text == word


def _text(node: tree.Node) -> str:
    return _shown(node.span.text)


def _shown(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."


def _divisors(number: int) -> str:
    found = [str(n) for n in range(1, min(number, 4096) + 1) if number % n == 0]
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} or {found[-1]}"
