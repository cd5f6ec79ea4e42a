"""The canonical form: same meaning, comments kept, stable."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnc.diagnostics import SpecError
from attnc.ir.ops import COMPARISONS, FUNCTIONS, INFIX
from attnc.passes.resolve import resolve
from attnc.source import Source
from attnc.syntax import tree
from attnc.syntax.format import format_source, show
from attnc.syntax.parse import parse, parse_expression

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.attn"))


def formatted(text: str) -> str:
    return format_source(Source("a.attn", text))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_canonical(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert formatted(text) == text


def test_clauses_comments_and_blank_lines() -> None:
    text = """# about


# more
attention a{ # the name

  # first
  φ(x,p=2)=elu( (x) )+1
  input g,beta:[ B,H , S ]# gates
  heads=8


  similarity=φ(q)·(φ(k))  # product
  mask=(causal)∧( # inner
     ¬ (i≠j))
  param w : [H]=0.50
  normalizer=off
  # last

}
# after"""
    expected = """# about

# more
attention a {                          # the name
    # first
    phi(x, p = 2) = elu(x) + 1
    input g, beta : [B, H, S]          # gates
    heads      = 8

    similarity = phi(q) @ phi(k)       # product
    # inner
    mask       = causal and not i != j
    param w : [H] = 0.50
    normalizer = off
    # last
}
# after
"""
    assert formatted(text) == expected
    assert formatted(expected) == expected


def test_long_chains_go_on_in_further_lines() -> None:
    parts = " and ".join(f"(window({n}) or prefix({n}))" for n in range(100, 110))
    text = f"attention a {{\n mask = {parts}\n similarity = q @ k\n normalizer = off\n}}\n"
    made = formatted(text)
    assert max(map(len, made.splitlines())) <= 100
    assert formatted(made) == made
    first, second = (parse(Source("x", t))[0] for t in (text, made))
    assert first == second


@pytest.mark.parametrize("text", ["", "attention a {\n mask = \n}", "attention a {\n x = (1\n}"])
def test_what_is_no_spec_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        formatted(text)


NAMES = st.sampled_from(["x", "y", "d_k", "q", "i"]).map(str)
NUMBERS = st.sampled_from(["0", "1", "2.5", "1e-6", ".5", "10000"])


def bracketed(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    infix = st.tuples(children, st.sampled_from(sorted(INFIX)), children).map(
        lambda t: f"({t[0]}) {t[1]} ({t[2]})"
    )
    prefix = st.tuples(st.sampled_from(["-", "not "]), children).map(lambda t: f"{t[0]}({t[1]})")
    called = st.tuples(st.sampled_from(sorted(FUNCTIONS)), children, children).map(
        lambda t: f"{t[0]}({t[1]}, base = {t[2]})"
    )
    indexed = st.tuples(children, children, children).map(lambda t: f"({t[0]})[{t[1]}, {t[2]}:]")
    return st.one_of(infix, infix, prefix, called, indexed)


EXPRESSIONS = st.recursive(st.one_of(NAMES, NUMBERS), bracketed, max_leaves=12)


def parsed(text: str) -> tree.Node:
    node, found = parse_expression(Source("x", text))
    assert node is not None and not found, (text, found)
    return node


@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS)
def test_brackets_are_kept_where_they_matter(text: str) -> None:
    node = parsed(text)
    once = show(node)
    assert parsed(once) == node
    assert show(parsed(once)) == once


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS)
def test_no_bracket_is_left_that_does_not_matter(text: str) -> None:
    once = show(parsed(text))
    for start in [n for n, char in enumerate(once) if char == "("]:
        if start and (once[start - 1].isalnum() or once[start - 1] == "_"):
            continue  # a call's
        depth = 0
        for end in range(start, len(once)):
            depth += (once[end] == "(") - (once[end] == ")")
            if depth == 0:
                break
        inside, _ = parse_expression(Source("x", once[start + 1 : end]))
        if isinstance(inside, tree.Infix) and inside.op in COMPARISONS:
            continue  # without it there may be a chain of comparisons, which is refused later
        without = once[:start] + " " + once[start + 1 : end] + " " + once[end + 1 :]
        node, found = parse_expression(Source("x", without))
        assert found or node != parsed(once), (once, without)


VALUES = st.recursive(
    st.sampled_from(["q @ k", "q[0]", "2", "sum(k)", "g[j]", "d_k", "w", "h", "j - i"]),
    lambda children: st.one_of(
        st.tuples(children, st.sampled_from(["+", "-", "*", "/", "^"]), children).map(
            lambda t: f"({t[0]}) {t[1]} ({t[2]})"
        ),
        children.map(lambda c: f"-({c})"),
        children.map(lambda c: f"where(not (({c}) < 2 and ({c}) > 0), {c}, exp({c}))"),
        children.map(lambda c: f"f(({c}), y = ({c}))"),
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(VALUES, st.booleans())
def test_the_formatted_text_means_the_same(value: str, wide: bool) -> None:
    gap = "   " if wide else ""
    text = (
        f"attention a {{{gap}# one\nlet w={gap}3\ninput g:[B,{gap}H,S]\nf(x,y=2)=x*y+w # two\n"
        f"align=lower_right\nsimilarity={gap}{value}\nnormalizer=on(signed)\n\n\n}}"
    )
    made = formatted(text)
    assert formatted(made) == made
    assert made.count("#") == text.count("#")
    (before, _), (after, _) = (resolve(Source("a.attn", t)) for t in (text, made))
    assert before == after
