"""Every malformed example is refused, with the message of its own row."""

from __future__ import annotations

import pytest

from attnc.source import Source
from attnc.syntax.mistakes import CLAUSES, DECLARATIONS, FILES, Mistake
from attnc.syntax.parse import parse

INSIDE = [(m, e) for m in (*CLAUSES, *DECLARATIONS) for e in m.examples]
WHOLE = [(m, e) for m in FILES for e in m.examples]


def begins(message: str, mistake: Mistake) -> bool:
    """Is the message an instance of the row's?"""
    fixed = mistake.message.replace("{{", "{").replace("}}", "}")
    return message.startswith(fixed.split("`{")[0]) and len(message) >= len(fixed.split("`{")[0])


@pytest.mark.parametrize(("mistake", "example"), INSIDE, ids=[e for _, e in INSIDE])
def test_clauses(mistake: Mistake, example: str) -> None:
    _attention, found = parse(
        Source("x.attn", f"attention a {{\nheads = 8\n{example}\nchunk = 64\n}}\n")
    )
    syntax = [d for d in found if d.code in ("E103", "E104")]
    assert len(syntax) == 1, found
    assert begins(syntax[0].message, mistake), syntax[0].message
    assert syntax[0].span.line == 3


@pytest.mark.parametrize(("mistake", "example"), WHOLE, ids=[e for _, e in WHOLE])
def test_files(mistake: Mistake, example: str) -> None:
    attention, found = parse(Source("x.attn", example))
    assert attention is None
    messages = [d.message for d in found if d.code == "E104"]
    assert len(messages) == 1, found
    assert begins(messages[0], mistake), messages
