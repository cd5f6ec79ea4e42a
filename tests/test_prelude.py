"""The prelude's entries, what they mean in numbers, and the words that `help` explains."""

from __future__ import annotations

import numpy as np
import pytest

from attnc import prelude
from attnc.ir.expr import Role, Row, RowName, Tensor, TensorDecl
from attnc.ir.numeric import Env, evaluate
from attnc.ir.ops import FUNCTIONS, INFIX
from attnc.ir.sizes import Size
from attnc.ir.types import Kind
from attnc.passes.names import (
    CONSTANTS,
    DIMS,
    INDICES,
    LANGUAGE_WORDS,
    ROWS,
    SCALAR_CLAUSES,
)
from attnc.passes.resolve import formula
from attnc.syntax.layout import CLAUSE_WORDS

WORDS = sorted(
    {*CONSTANTS, *DIMS, *INDICES, *ROWS, *LANGUAGE_WORDS, *CLAUSE_WORDS, *FUNCTIONS, *INFIX}
)


@pytest.mark.parametrize("word", [*WORDS, "·", "≤", "¬"])
def test_every_word_is_explained(word: str) -> None:
    text = prelude.describe(word)
    assert text is not None and len(text) > 15 and "\n" not in text


@pytest.mark.parametrize("name", prelude.functions())
def test_every_entry_has_a_comment(name: str) -> None:
    text = prelude.describe(name)
    assert text is not None and text.startswith("# ") and f"\n{name}" in text


def test_overloads_are_shown_together() -> None:
    text = prelude.describe("window")
    assert text is not None
    assert "window(w) = i - w < j and j <= i" in text and "window(left, right) =" in text


def test_unknown_words() -> None:
    assert prelude.describe("nonsense") is None
    assert prelude.describe("") is None


def test_no_word_is_explained_twice() -> None:
    assert not prelude.known_words() & set(prelude.functions()) & set(WORDS)
    assert set(SCALAR_CLAUSES) <= set(CLAUSE_WORDS)


X = np.array([0.5, -1.0, 2.0, 0.25, -0.75, 3.0])
Y = np.array([1.5, 0.3, -0.2, 0.8, 1.0, -2.0])
W = np.linspace(-1, 1, 18).reshape(3, 6)


def values(text: str) -> np.ndarray:
    """An expression over the rows x and y and the matrix W, in numbers."""
    size = Size.of(6)
    x, y = Row(RowName.Q, size), Row(RowName.K, size)
    decl = TensorDecl("W", Role.BUFFER, Kind.FLOAT, (Size.of(3), size))
    env = Env({}, {}, {RowName.Q: X, RowName.K: Y}, {"W": W})
    return evaluate(formula(text, x=x, y=y, W=Tensor(decl, (None, None))), env)


def halves(x: np.ndarray, angle: np.ndarray) -> np.ndarray:
    z = (x[:3] + 1j * x[3:]) * np.exp(1j * angle)
    return np.concatenate([z.real, z.imag])


S = X @ Y
Z = np.concatenate([np.maximum(X, 0), np.maximum(-X, 0)])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("unit(x)", X / np.linalg.norm(X)),
        ("rms(x)", X / np.sqrt((X**2).mean())),
        ("center(x)", X - X.mean()),
        ("rms(center(x))", (X - X.mean()) / X.std()),
        ("rope(x, 7)", halves(X, 7 * 10000.0 ** (-2 * np.arange(3) / 6))),
        ("rope(x, 7, 500)", halves(X, 7 * 500.0 ** (-2 * np.arange(3) / 6))),
        ("rope(x, 9) @ rope(y, 4)", halves(X, 5 * 10000.0 ** (-2 * np.arange(3) / 6)) @ Y),
        ("elu1(x)", np.where(X > 0, X + 1, np.exp(np.minimum(X, 0)))),
        ("taylor2(x) @ taylor2(y)", 1 + S + S**2 / 2),
        ("hedgehog(x)", np.exp(np.concatenate([X, -X]))),
        ("favor(x, W)", np.exp(W @ X - X @ X / 2) / np.sqrt(3)),
        ("dpfp1(x)", Z * np.roll(Z, 1)),
        ("dpfp3(x)", np.concatenate([Z * np.roll(Z, n) for n in (1, 2, 3)])),
        ("unit(0 * x)", np.zeros(6)),
        ("rms(0 * x)", np.zeros(6)),
    ],
)
def test_feature_maps_in_numbers(text: str, value: np.ndarray) -> None:
    np.testing.assert_allclose(values(text), value, rtol=1e-12, atol=1e-12)
