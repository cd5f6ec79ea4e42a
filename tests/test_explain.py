"""The explanation's numbers against counts made in another way, and its layout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnc.costs import TILE, default_sizes, memory, tiles
from attnc.explain import explain
from attnc.explain_text import as_text, quantity
from attnc.ir.facts import Facts
from attnc.ir.spec import AttnSpec
from attnc.pipeline import check
from attnc.source import Source

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.attn"))


def checked(text: str) -> tuple[AttnSpec, Facts]:
    found = check(Source("x.attn", text))
    assert found.ok, [str(d) for d in found.diagnostics]
    assert found.spec is not None and found.facts is not None
    return found.spec, found.facts


def softmax(mask: str, align: str = "lower_right") -> str:
    return (
        "attention x {\n similarity = exp(q @ k)\n normalizer = on\n"
        f" mask = {mask}\n align = {align}\n}}\n"
    )


MASKS = {
    "causal": lambda p, j: j <= p,
    "window(100)": lambda p, j: p - 100 < j <= p,
    "window(70, 30)": lambda p, j: p - 70 <= j <= p + 30,
    "prefix(130)": lambda p, j: j < 130,
    "none": lambda p, j: True,
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("align", ["lower_right", "upper_left"])
@pytest.mark.parametrize(("rows", "keys"), [(256, 256), (100, 300), (300, 100), (1, 64), (0, 5)])
def test_tiles_visited_hold_every_pair(mask: str, align: str, rows: int, keys: int) -> None:
    spec, facts = checked(softmax(mask, align))
    found = tiles(spec, facts, default_sizes(spec, {"L": rows, "S": keys}))
    offset = keys - rows if align == "lower_right" else 0
    needed = 0
    for top in range(0, rows, TILE):
        positions = [offset + i for i in range(top, min(top + TILE, rows))]
        for left in range(0, keys, TILE):
            columns = range(left, min(left + TILE, keys))
            needed += any(MASKS[mask](p, j) for p in positions for j in columns)
    assert found.total == -(-rows // TILE) * -(-keys // TILE)
    # each row of tiles visits one stretch, and all of these masks are stretches
    assert found.visited == needed


def test_state_against_cache() -> None:
    text = (ROOT / "examples" / "retention.attn").read_text()
    spec, facts = checked(text)
    kept = memory(spec, facts, default_sizes(spec, {"d_k": 64, "d_v": 64}))
    assert kept is not None
    assert (kept.state, kept.cache_per_token) == (64 * 64, 128)
    assert (kept.smaller_beyond, kept.cheaper_beyond) == (32, 64)


def test_no_state_for_softmax() -> None:
    spec, facts = checked(softmax("causal"))
    assert memory(spec, facts, default_sizes(spec, {})) is None
    assert "no state of fixed size" in as_text(explain(spec, facts, {}))


def test_why_a_form_is_missing_is_said() -> None:
    spec, facts = checked(softmax("causal"))
    text = as_text(explain(spec, facts, {}))
    assert "does not exist" in text
    assert "exp" in text


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_layout(path: Path) -> None:
    spec, facts = checked(path.read_text())
    found = explain(spec, facts, {"L": 1 << 17})
    text = as_text(found)
    assert all(len(line) <= 100 and line == line.rstrip() for line in text.splitlines())
    for fact in facts.forms:
        assert fact.form.value in text
    assert json.loads(json.dumps(found.as_dict()))["attention"] == path.stem


def test_a_size_that_is_not_given_is_asked_for() -> None:
    spec, facts = checked(
        "attention x {\n buffer W : [m, d_k]\n phi(x) = relu(matmul(W, x))\n"
        " similarity = phi(q) @ phi(k)\n mask = causal\n align = lower_right\n normalizer = on\n}\n"
    )
    without = explain(spec, facts, {})
    assert without.missing_sizes == ("m",)
    assert without.factorization.size_number is None
    assert "--size m=N" in as_text(without)
    assert explain(spec, facts, {"m": 48}).factorization.size_number == 48


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (1000, "1 k"), (1234567, "1.23 M"), (None, "?")]
)
def test_quantity(number: int | None, text: str) -> None:
    assert quantity(number) == text
