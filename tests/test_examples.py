"""The shipped specs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SPECS = sorted((ROOT / "examples").glob("*.attn"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_spec_says_whose_it_is(path: Path) -> None:
    first, second = path.read_text().splitlines()[:2]
    assert first.startswith("# ")
    assert re.search(r"\b(19|20)\d\d\b", second), "the second line names the paper and its year"
    assert f"attention {path.stem} {{" in path.read_text()
