"""Source -> AttnSpec and diagnostics: every name looked up, every type checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from attnc.diagnostics import Diagnostic, errors
from attnc.ir.expr import Bad, Expr, Row, RowName, walk
from attnc.ir.spec import Align, AttnSpec, Layout, Precision, Read
from attnc.passes.clauses import Clauses, row_places
from attnc.passes.expressions import Expressions
from attnc.passes.names import Scope, collect, override
from attnc.passes.numbers import Numbers
from attnc.passes.resolver import Place
from attnc.passes.tensors import declare, enter_dims
from attnc.passes.unused import check_bodies, warn
from attnc.source import Source, Span
from attnc.syntax import tree
from attnc.syntax.parse import parse, parse_expression

NOTHING: Mapping[str, str] = {}


def resolve(
    source: Source, overrides: Mapping[str, str] = NOTHING
) -> tuple[AttnSpec | None, list[Diagnostic]]:
    """What a text says, or None where it has errors, and everything found on the way.

    `overrides` are values for lets and scalar clauses, as texts.
    """
    attention, found = parse(source)
    if attention is None:
        return None, _sorted(found)
    scope = Scope(source, attention.name.span, found, _broken_words(source, found))
    collect(attention, scope)
    override(overrides, scope, _parsed(overrides, scope))
    spec = _resolve(attention, scope)
    return (None if errors(scope.found) else spec), _sorted(scope.found)


def _resolve(attention: tree.Attention, scope: Scope) -> AttnSpec:
    expressions = _expressions(scope)
    numbers, clauses = expressions.numbers, Clauses(scope, expressions.numbers, expressions)
    enter_dims(scope)
    declare(scope, expressions)
    d_k, d_v = numbers.size("d_k"), numbers.size("d_v")
    q, k, v = Row(RowName.Q, d_k), Row(RowName.K, d_k), Row(RowName.V, d_v)
    places = row_places(q, k, v)
    query = clauses.row("query", places["query"], q)
    key = clauses.row("key", places["key"], k)
    value = clauses.row("value", places["value"], v)
    made_q, made_k = _row_of(RowName.Q, query, q), _row_of(RowName.K, key, k)
    spec = AttnSpec(
        name=attention.name.text,
        source=scope.source,
        tensors=tuple(scope.tensors.values()),
        lets=tuple((name, _number(numbers.let(name))) for name in scope.lets),
        query=query,
        key=key,
        value=value,
        similarity=clauses.similarity(made_q, made_k),
        mask=clauses.mask(),
        align=clauses.word("align", Align),
        decay=clauses.decay(),
        beta=clauses.beta(),
        read=clauses.word("read", Read) or Read.AFTER,
        normalizer=clauses.normalizer(),
        output=clauses.output(_row_of(RowName.V, value, v).size, made_q, made_k),
        heads=numbers.clause("heads"),
        kv_heads=clauses.heads("kv_heads"),
        v_heads=clauses.heads("v_heads"),
        d_k=numbers.clause("d_k"),
        d_v=numbers.clause("d_v"),
        form=clauses.form(),
        chunk=clauses.chunk(),
        layout=clauses.word("layout", Layout) or Layout.BHLD,
        precision=clauses.word("precision", Precision) or Precision.IEEE,
        spans=(
            ("name", attention.name.span),
            *((name, setting.value.span) for name, setting in scope.settings.items()),
        ),
    )
    check_bodies(scope, expressions)
    warn(scope)
    return spec


def _expressions(scope: Scope) -> Expressions:
    def constant_clause(node: tree.Node, clause: str) -> Expr:
        hint = f"`{clause}` is a constant"
        return Expressions(scope, numbers, Place(clause, hint=hint)).clause_alone(node)

    aligned = "align" in scope.settings or "align" in scope.broken
    numbers = Numbers(scope, constant_clause, aligned)
    return Expressions(scope, numbers, Place("dims", hint="dims are sizes"))


def _row_of(name: RowName, made: Expr, plain: Row) -> Row:
    """The row that other clauses see."""
    return Row(name, made.type.shape[0]) if made.type.is_row else plain


def _number(expr: Expr) -> float:
    value = getattr(expr, "value", 0)
    return value if isinstance(value, int | float) else 0


def _parsed(overrides: Mapping[str, str], scope: Scope) -> dict[str, tree.Node]:
    """The values set from outside; a name keeps its place in the messages about it."""
    values: dict[str, tree.Node] = {}
    for name, text in overrides.items():
        node, found = parse_expression(Source(f"--set {name}", str(text)))
        scope.found.extend(found)
        if node is not None:
            values[name] = node
    return values


def _broken_words(source: Source, found: list[Diagnostic]) -> frozenset[str]:
    """The words of lines that could not be read: nothing is said about their absence."""
    lines = {d.span.line for d in found if d.code in ("E101", "E102", "E103")}
    return frozenset(w for line in lines for w in re.findall(r"\w+", source.line(line)))


def _sorted(found: list[Diagnostic]) -> list[Diagnostic]:
    return sorted(found, key=lambda d: d.span.start)


class FormulaError(ValueError):
    """A formula of the compiler itself is wrong."""


@lru_cache(maxsize=512)
def _formula_tree(text: str) -> tree.Node:
    node, found = parse_expression(Source("formula", text))
    if node is None or found:
        raise FormulaError("\n".join(map(str, found)))
    return node


def formula(text: str, **names: Expr) -> Expr:
    """An expression in the language over the given names."""
    node = _formula_tree(text)
    scope = Scope(node.span.source, Span(node.span.source, 0, 1), [], frozenset())
    expressions = _expressions(scope)
    expressions.numbers.aligned = True
    expressions.place = Place("formula", indices=frozenset("ijhb"))
    result = expressions.expr(node, names)
    if scope.found or any(isinstance(part, Bad) for part in walk(result)):
        raise FormulaError("\n".join(map(str, scope.found)))
    return result
