"""The prelude: functions and masks in the language itself, and the words `help` explains."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from attnc.resources import folder
from attnc.source import Source
from attnc.syntax import tree
from attnc.syntax.parse import parse_prelude

Overloads = tuple[tree.Function, ...]


@cache
def functions() -> Mapping[str, Overloads]:
    """The definitions of each name; several differ in the number of parameters."""
    found: dict[str, Overloads] = {}
    for clause in parse_prelude(_source()):
        match clause:
            case tree.Function():
                definition = clause
            case tree.Setting(name, value, span):
                definition = tree.Function(name, (), value, span)
            case _:
                raise ValueError(f"prelude.attn holds only functions: {clause.span.text}")
        word = definition.name.text
        found[word] = (*found.get(word, ()), definition)
    return found


@cache
def _source() -> Source:
    path = folder("grammar") / "prelude.attn"
    return Source("prelude.attn", path.read_text(encoding="utf-8"))


def describe(word: str) -> str | None:
    """What a word of the language means; a prelude function with its source. None: no such word."""
    word = {"φ": "phi", "·": "@", "≤": "<=", "≥": ">=", "≠": "!=", "∧": "and", "∨": "or",
            "¬": "not"}.get(word, word)  # fmt: skip
    if word in functions():
        return "\n\n".join(_with_comment(definition) for definition in functions()[word])
    return _words().get(word)


def _with_comment(definition: tree.Function) -> str:
    lines = _source().text.splitlines()
    first = definition.span.line - 1
    start = first
    while start and lines[start - 1].startswith("#"):
        start -= 1
    return "\n".join([*lines[start:first], definition.span.text])


@cache
def _words() -> Mapping[str, str]:
    """grammar/words.txt: a word or several, a colon, the explanation; more on indented lines."""
    text = (folder("grammar") / "words.txt").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for entry in text.replace("\n    ", " ").splitlines():
        words, separator, explanation = entry.partition(" : ")
        if separator and not entry.startswith("#"):
            found.update(dict.fromkeys(words.split(), explanation.strip()))
    return found


def known_words() -> frozenset[str]:
    """Everything that `describe` explains."""
    return frozenset(_words()) | frozenset(functions())
