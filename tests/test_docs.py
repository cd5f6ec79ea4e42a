"""The pages of docs/: their code runs, and the modules that they show are what is generated."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import attnc
from tests.test_readme import ROOT, blocks

DOCS = ROOT / "docs"
MODULES = sorted((DOCS / "modules").glob("*.py"))
PAGES = [page for page in sorted(DOCS.glob("*.md")) if blocks(page.read_text("utf-8"), "python")]


def test_modules_are_shown() -> None:
    assert {path.stem for path in MODULES} == {"linear", "retention", "softmax_causal"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_shown_is_what_is_generated(path: Path) -> None:
    made = attnc.compile(ROOT / "examples" / f"{path.stem}.attn", verify="none")
    assert path.read_text("utf-8") == made.source, "CONTRIBUTING.md has the command"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "modules"))
    names: dict[str, object] = {}
    for block in blocks(page.read_text("utf-8"), "python"):
        exec(compile(block, page.name, "exec"), names)
    for path in MODULES:
        sys.modules.pop(path.stem, None)


def test_some_page_has_code() -> None:
    assert PAGES
