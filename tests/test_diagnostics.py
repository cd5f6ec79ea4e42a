"""Every file of tests/specs/refused gets exactly the diagnostics that its first lines expect.

`# expect: CODE LINE:COLUMN`, one line for each; `# set: NAME=VALUE` gives values as --set does.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attnc.diagnostics import CODES, Diagnostic
from attnc.pipeline import check
from attnc.source import Source, Span

REFUSED = sorted((Path(__file__).parent / "specs" / "refused").glob("*.attn"))
EXPECT = re.compile(r"^# expect: (\w\d+) (\d+):(\d+)$", re.M)

SET = re.compile(r"^# set: (\w+)=(.+)$", re.M)


def expected(text: str) -> list[tuple[str, int, int]]:
    return [(code, int(line), int(column)) for code, line, column in EXPECT.findall(text)]


def found(path: Path) -> tuple[Diagnostic, ...]:
    text = path.read_text(encoding="utf-8")
    return check(Source(path.name, text), dict(SET.findall(text))).diagnostics


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_refused(path: Path) -> None:
    got = [(d.code, d.span.line, d.span.column) for d in found(path)]
    wanted = expected(path.read_text(encoding="utf-8"))
    assert wanted, f"{path.name} expects nothing"
    assert sorted(got) == sorted(wanted)


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_messages_read_well(path: Path) -> None:
    for diagnostic in found(path):
        first, *rest = str(diagnostic).split("\n")
        place = f"{diagnostic.span.source.name}:{diagnostic.span.line}:{diagnostic.span.column}"
        assert first.startswith(f"{place}: {diagnostic.severity.value} {diagnostic.code}: ")
        assert "^" in rest[1]
        assert "  " not in diagnostic.message, "a hole in the message"
        assert "``" not in diagnostic.message
        assert not diagnostic.message.endswith(".")
        assert diagnostic.hint or diagnostic.severity.value == "note", "say what to write instead"


def test_every_code_has_a_spec() -> None:
    shown = {code for path in REFUSED for code, _, _ in expected(path.read_text("utf-8"))}
    # E401 is raised by compile, not by check: tests/test_pipeline.py has it
    assert shown == set(CODES) - {"E401"}


def test_a_long_line_is_cut_in_the_excerpt() -> None:
    source = Source("x", "a" * 5000 + "!" + "b" * 5000)
    shown = Span(source, 5000, 5001).excerpt().split("\n")
    assert max(map(len, shown)) < 220
    assert shown[0][shown[1].index("^")] == "!"
