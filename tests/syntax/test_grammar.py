"""The grammar's levels are those of ir/ops.py; spans and spellings are kept."""

from __future__ import annotations

import pytest

from attnc.ir.ops import COMPARISONS, INFIX, RIGHT_ASSOCIATIVE, Op
from attnc.source import Source
from attnc.syntax import tree
from attnc.syntax.parse import MAX_BYTES, parse, parse_expression


def parsed(text: str) -> tree.Node:
    node, found = parse_expression(Source("x", text))
    assert node is not None and not found, found
    return node


@pytest.mark.parametrize("first", INFIX.values(), ids=lambda op: op.name)
@pytest.mark.parametrize("second", INFIX.values(), ids=lambda op: op.name)
def test_precedences_are_those_of_the_table(first: Op, second: Op) -> None:
    node = parsed(f"a {first.info.spelling} b {second.info.spelling} c")
    assert isinstance(node, tree.Infix)
    one, two = first.info.precedence, second.info.precedence
    assert one is not None and two is not None
    right_first = two > one or (two == one and second in RIGHT_ASSOCIATIVE)
    assert node.op is (first if right_first else second)
    assert isinstance(node.right if right_first else node.left, tree.Infix)


@pytest.mark.parametrize("op", INFIX.values(), ids=lambda op: op.name)
def test_prefixes_bind_as_the_table_says(op: Op) -> None:
    level = op.info.precedence
    assert level is not None
    for prefix in (Op.NEG, Op.NOT):
        node = parsed(f"{prefix.info.spelling} a {op.info.spelling} b")
        own = prefix.info.precedence
        assert own is not None
        assert isinstance(node, tree.Prefix if own < level else tree.Infix), (prefix, op)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2^-3", "2^(-3)"),
        ("2^-3^2", "2^(-(3^2))"),
        ("-x^2", "-(x^2)"),
        ("a - b - c", "(a - b) - c"),
        ("a / b * c", "(a / b) * c"),
        ("a ≤ b ∧ ¬ c ≥ d ∨ e ≠ f", "(a <= b and (not (c >= d))) or (e != f)"),
        ("φ(q) · φ(k)", "phi(q) @ phi(k)"),
        ("f(x,\n  y)", "f(x, y)"),
        ("f(x, y,)", "f(x, y)"),
        ("a +\n\n b", "a + b"),
        ("(a\n+ b)", "a + b"),
        ("x[1:2:3]", "x[1 : 2 : 3]"),
        ("1.50e-1", "0.15"),
        ("not not a", "not (not a)"),
        ("--x", "-(-x)"),
    ],
)
def test_same_tree(text: str, same: str) -> None:
    assert parsed(text) == parsed(same)


def test_comparisons_are_infix_operators_of_one_level() -> None:
    assert len({op.info.precedence for op in COMPARISONS}) == 1


def test_spans() -> None:
    text = "attention a {\n  phi(x) = (x) * 2 # two\n  mask = f(\n    j) and\n i > 1\n}\n"
    attention, found = parse(Source("x", text))
    assert attention is not None and not found
    function, mask = attention.clauses
    assert isinstance(function, tree.Function) and isinstance(mask, tree.Setting)
    assert function.span.text == "phi(x) = (x) * 2"
    assert function.body.span.text == "(x) * 2"
    assert mask.value.span.text == "f(\n    j) and\n i > 1"
    assert (mask.name.span.line, mask.name.span.column) == (3, 3)
    assert attention.span.text == text.strip()


@pytest.mark.parametrize(
    "text", ["\ufeffattention a {\r\n x = 3\r\n}\r\n", "attention a { x = 3 }"]
)
def test_line_ends_of_all_kinds(text: str) -> None:
    attention, found = parse(Source("x", text))
    assert not found and attention is not None
    assert [clause.span.text for clause in attention.clauses] == ["x = 3"]


def test_a_broken_clause_does_not_hide_the_others() -> None:
    text = "attention a {\n mask = \n heads = 8\n x = f(\n form = 2 3\n z = (1\n let w = 3\n}\n"
    attention, found = parse(Source("x", text))
    assert attention is not None
    assert [d.span.line for d in found] == [4, 6, 2, 5]
    kept = [c.name.text for c in attention.clauses if isinstance(c, tree.Setting | tree.Let)]
    assert kept == ["heads", "x", "z", "w"]


@pytest.mark.parametrize(
    "text",
    [
        "(" * 300 + "q" + ")" * 300,
        "-" * 5000 + "q",
        "not " * 5000 + "q",
        "+".join("q" * 5000),
        "^".join("q" * 5000),
        "f(" * 5000,
        "x[" * 5000,
        "x" + "[1]" * 5000,
    ],
    ids=lambda text: text[:6],
)
def test_deep_nesting_is_refused(text: str) -> None:
    _attention, found = parse(Source("x", f"attention a {{\n similarity = {text}\n}}\n"))
    deep_brackets = text.startswith("((")  # brackets alone leave nothing in the tree
    assert deep_brackets or any(d.code in ("E106", "E102", "E103") for d in found)
    assert len(found) <= 3


def test_a_large_file_is_refused_at_once() -> None:
    attention, found = parse(Source("x", "#" * (MAX_BYTES + 1)))
    assert attention is None
    assert [d.code for d in found] == ["E106"]
