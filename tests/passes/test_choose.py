from __future__ import annotations

import pytest

from attnc.ir.spec import Form
from attnc.passes.analyse import analyse
from attnc.passes.choose import Thresholds, thresholds
from attnc.passes.resolve import resolve
from attnc.source import Source

P, C, R = Form.PARALLEL, Form.CHUNKWISE, Form.RECURRENT


def of(clauses: str) -> Thresholds:
    text = f"attention a {{\n{clauses.replace('; ', chr(10))}\n}}\n"
    spec, _ = resolve(Source("a.attn", text), {})
    assert spec is not None
    facts, _ = analyse(spec)
    assert facts is not None
    return thresholds(spec, facts)


CAUSAL = "similarity = q @ k; normalizer = off; mask = causal; align = lower_right"
BOTH_WAYS = "similarity = q @ k; normalizer = off"


@pytest.mark.parametrize(
    ("clauses", "rows", "keys", "form"),
    [
        (CAUSAL, 1, 1, R),
        (CAUSAL, 1, 1000, P),
        (CAUSAL, 200, 200, P),
        (CAUSAL, 4096, 4096, C),
        (CAUSAL + "; chunk = 256", 500, 500, P),
        (CAUSAL + "; form = chunkwise", 1, 1, C),
        (BOTH_WAYS, 4096, 1, C),
        (BOTH_WAYS, 100, 4096, P),
        ("similarity = exp(q @ k); normalizer = on", 10**6, 10**6, P),
        ("input g : [B, H, S, d_k]; decay = sigmoid(g); " + CAUSAL, 100, 100, C),
    ],
)
def test_the_form_of_a_call(clauses: str, rows: int, keys: int, form: Form) -> None:
    assert of(clauses).form(rows, keys, 64, 64) is form


def test_the_threshold_is_where_the_work_is_equal() -> None:
    found = of(CAUSAL)
    rows = found.parallel_up_to(32, 96)
    parallel = 0.5 * rows * (32 + 96)
    chunkwise = found.chunk * (32 + 96) + 2 * 32 * 96
    assert parallel <= chunkwise < 0.5 * (rows + 1) * (32 + 96)
