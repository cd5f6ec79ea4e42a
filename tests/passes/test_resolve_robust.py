"""Whatever the text is, resolve answers with diagnostics whose places lie in the text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attnc.diagnostics import errors
from attnc.passes.resolve import resolve
from attnc.source import Source

ROOT = Path(__file__).resolve().parents[2]
SPECS = [
    path.read_text(encoding="utf-8")
    for folder in ("examples", "tests/specs")
    for path in sorted((ROOT / folder).rglob("*.attn"))
    if path.stem not in ("growth", "nesting")
]
WORDS = [
    "attention",
    "a",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    ":",
    "=",
    "\n",
    "#",
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "@",
    "^",
    "<",
    "<=",
    "==",
    "and",
    "or",
    "not",
    "let",
    "input",
    "param",
    "buffer",
    "int",
    "bool",
    "q",
    "k",
    "v",
    "o",
    "i",
    "j",
    "h",
    "b",
    "n",
    "B",
    "H",
    "G",
    "L",
    "S",
    "d_k",
    "d_v",
    "0",
    "1",
    "2",
    "3.5",
    "1e400",
    "exp",
    "sum",
    "unit",
    "rope",
    "same",
    "keys",
    "window",
    "causal",
    "none",
    "on",
    "off",
    "eps",
    "floor",
    "signed",
    "similarity",
    "mask",
    "decay",
    "update",
    "normalizer",
    "output",
    "query",
    "align",
    "delta",
    "lower_right",
    "heads",
    "kv_heads",
    "chunk",
    "form",
    "x",
    "y",
    "f",
    "phi",
    "·",
    "φ",
    "≤",
    "&&",
    "**",
    '"',
    ".",
    "'",
    ";",
    "\x00",
    "é",
    "where",
    "concat",
    "outer",
    "roll",
    "range",
    "matmul",
    "rotate",
    "size",
    "softmax",
    "inf",
    "pi",
    "runs",
]


def answer(text: str) -> None:
    source = Source("x.attn", text)
    spec, found = resolve(source)
    assert (spec is None) == bool(errors(found))
    for diagnostic in found:
        assert 0 <= diagnostic.span.start <= len(text)
        assert diagnostic.span.start < diagnostic.span.end or not text
        assert str(diagnostic)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
@example("")
@example("attention")
@example("attention a {")
@example("\r\n\r\n}")
@example("attention a {\n x[\n}")
def test_any_text(text: str) -> None:
    answer(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=40))
def test_any_words(words: list[str]) -> None:
    answer(" ".join(words))
    answer("attention a {\n similarity = q @ k\n normalizer = off\n " + " ".join(words) + "\n}\n")


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(WORDS), st.lists(st.sampled_from(WORDS), min_size=1, max_size=12))
def test_any_value(clause: str, words: list[str]) -> None:
    declared = "input x : [B, H, S]\n param y : [H]\n f(x, y = 1) = x * y\n let phi = 2\n"
    answer(f"attention a {{\n {declared} {clause} = {' '.join(words)}\n}}\n")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_specs(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(SPECS))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 6)))
        text = text[:start] + data.draw(st.sampled_from(["", *WORDS])) + text[end:]
    answer(text)


@pytest.mark.parametrize("text", ["f(" * 199 + "o" + ")" * 199, "-" * 190 + "o", "1+" * 190 + "o"])
def test_the_deepest_nesting_that_is_read(text: str) -> None:
    answer(f"attention a {{\n f(x) = x + 1\n output = {text}\n}}\n")
