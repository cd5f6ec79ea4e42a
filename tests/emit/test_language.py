"""What is printed in the language's spelling is read back as the same expression."""

from __future__ import annotations

import pytest

from attnc.emit.language import spell
from attnc.passes.resolve import resolve
from attnc.source import Source

SIMILARITIES = [
    "q @ k",
    "exp(q @ k / sqrt(d_k))",
    "(1 + q @ k)^2",
    "2^-(q @ k)",
    "2^(q @ k - 1)^2",
    "-(q @ k)^2",
    "(-(q @ k))^2",
    "q @ k - (1 - q @ k)",
    "q @ k / (2 * (q @ k))",
    "where(i - j < 3 and not (i == j), q @ k, 0)",
    "where(i < j or i > 2 and j > 3, 1, q @ k)",
    "where((i < j or i > 2) and j > 3, 1, q @ k)",
    "q[0:4] @ k[0:8:2]",
    "concat(1, q) @ concat(1, k)",
    "slope[h] * (q @ k) + bias[b, h, i, j]",
    "matmul(W, q) @ matmul(W, k)",
    "(i // 2 % 3) * (q @ k)",
    "-i // 2 * (q @ k)",
    "(-i) % 3 * (q @ k)",
]


def similarity(text: str) -> object:
    source = (
        "attention x {\n input slope : [H]\n input bias : [B, H, L, S]\n buffer W : [m, d_k]\n"
        f" similarity = {text}\n align = lower_right\n normalizer = off\n}}\n"
    )
    spec, found = resolve(Source("x.attn", source), {})
    assert spec is not None, [str(d) for d in found]
    return spec.similarity


@pytest.mark.parametrize("text", SIMILARITIES)
def test_spelling_is_read_back(text: str) -> None:
    expr = similarity(text)
    assert similarity(spell(expr)) == expr


@pytest.mark.parametrize("text", [t for t in SIMILARITIES if "(-i)" not in t and "bias" not in t])
def test_brackets_are_only_those_needed(text: str) -> None:
    expr = similarity(text)
    assert spell(expr).count("(") <= text.count("(")
