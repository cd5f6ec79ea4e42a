"""What the mask analysis claims against brute force on small grids."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnc.ir.expr import Dim, Expr, Index, IndexName, Number, Role, Tensor, TensorDecl, call
from attnc.ir.numeric import Env, evaluate
from attnc.ir.ops import Op
from attnc.ir.sizes import Size
from attnc.ir.types import Kind
from attnc.passes.masks import Tile, mask_facts, tile
from attnc.passes.resolve import formula

I, J = Index(IndexName.QUERY), Index(IndexName.KEY)  # noqa: E741
S = Dim(Size.of("S"))
KEYS, ROWS = 9, range(-4, 13)
RUNS = TensorDecl("doc", Role.INPUT, Kind.INT, (Size.of("B"), Size.of("S")))
LENGTHS = TensorDecl("lengths", Role.INPUT, Kind.INT, (Size.of("B"),))
B = Index(IndexName.BATCH)
SAME = call(Op.EQ, Tensor(RUNS, (B, I), True), Tensor(RUNS, (B, J), True))
LENGTH = Tensor(LENGTHS, (B,))


def mask(text: str) -> Expr:
    names = {"i": I, "j": J, "S": S, "length": LENGTH, "h": Index(IndexName.HEAD)}
    return formula(text, **names)


def grid(expr: Expr, rows: range = ROWS) -> np.ndarray:
    """The mask as booleans [rows, keys]."""
    indices = {
        IndexName.QUERY: np.array(rows).reshape(1, 1, -1, 1),
        IndexName.KEY: np.arange(KEYS).reshape(1, 1, 1, -1),
    }
    values = evaluate(expr, Env(dims={"S": KEYS, "L": len(rows)}, indices=indices))
    return np.broadcast_to(values, (1, 1, len(rows), KEYS))[0, 0]


def numbers() -> st.SearchStrategy[Expr]:
    small = st.integers(-3, 6).map(Number)
    leaves = st.one_of(st.just(I), st.just(J), st.just(S), small)

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        pair = st.tuples(inner, inner)
        period = st.integers(1, 5).map(Number)
        return st.one_of(
            st.tuples(st.sampled_from((Op.ADD, Op.SUB, Op.MIN, Op.MAX)), pair).map(
                lambda t: call(t[0], *t[1])
            ),
            st.tuples(st.sampled_from((Op.FLOORDIV, Op.MOD)), inner, period).map(
                lambda t: call(*t)
            ),
            st.tuples(st.sampled_from((-2, -1, 2, 3)), inner).map(
                lambda t: call(Op.MUL, t[0], t[1])
            ),
            inner.map(lambda x: call(Op.ABS, x)),
            inner.map(lambda x: call(Op.DIV, x, 2)),
        )

    return st.recursive(leaves, grow, max_leaves=4)


def masks() -> st.SearchStrategy[Expr]:
    compare = st.sampled_from((Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE))
    random = st.tuples(compare, numbers(), numbers()).map(lambda t: call(*t))
    near = st.tuples(compare, st.integers(-2, 2)).map(
        lambda t: call(t[0], J, call(Op.ADD, I, t[1]))
    )
    leaves = st.one_of(random, near, near)

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.one_of(
            st.tuples(st.sampled_from((Op.AND, Op.OR)), inner, inner).map(lambda t: call(*t)),
            inner.map(lambda x: call(Op.NOT, x)),
        )

    return st.recursive(leaves, grow, max_leaves=4)


@settings(max_examples=400, deadline=None)
@given(masks())
def test_no_claim_is_wrong(expr: Expr) -> None:
    facts, seen = mask_facts(expr), grid(expr)
    rows = np.array(ROWS).reshape(-1, 1)
    keys = np.arange(KEYS).reshape(1, -1)
    if facts.implies_causal:
        assert not seen[keys > rows].any() if seen.size else True
    if facts.is_causal:
        assert (grid(conjunction(facts.pair_factors)) == (keys <= rows)).all()
    check_range(facts.first_key, facts.past_key, seen, I, list(ROWS), keys=True)
    check_range(facts.first_row, facts.past_row, seen.T, J, list(range(KEYS)), keys=False)


def conjunction(factors: tuple[Expr, ...]) -> Expr:
    found: Expr = Number(True)
    for factor in factors:
        found = call(Op.AND, found, factor)
    return found


def check_range(
    first: Expr | None,
    past: Expr | None,
    seen: np.ndarray,
    index: Expr,
    places: list[int],
    keys: bool,
) -> None:
    """No visible pair is outside, and both ends grow."""
    indices = {IndexName.QUERY: np.array(places), IndexName.KEY: np.array(places)}
    env = Env(dims={"S": KEYS, "L": len(ROWS)}, indices=indices)
    others = np.array(range(KEYS) if keys else list(ROWS))
    for end, outside in ((first, np.less), (past, np.greater_equal)):
        if end is None:
            continue
        values = np.broadcast_to(evaluate(end, env), (len(places),))
        assert (np.diff(values) >= 0).all(), end
        assert not seen[outside(others[None, :], values[:, None])].any(), end


@settings(max_examples=300, deadline=None)
@given(masks(), st.integers(-4, 6), st.integers(1, 5), st.integers(0, 6), st.integers(1, 3))
def test_tiles_are_what_they_are_called(
    expr: Expr, row: int, height: int, key: int, width: int
) -> None:
    kind = tile(expr, (row, row + height), (key, key + width), {"S": KEYS, "L": 4})
    part = grid(expr, range(row, row + height))[:, key : key + width]
    if kind is Tile.EMPTY:
        assert not part.any()
    if kind is Tile.FULL:
        assert part.all()


@pytest.mark.parametrize(
    "text",
    [
        "j <= i", "i >= j", "not (j > i)", "j < i + 1", "i - 4 < j and j <= i", "j - i <= 0",
        "i // 4 == j // 4 and j <= i", "j < i or j == i", "2 * j <= 2 * i + 1", "j < i + 0.5",
        "j <= i and (j < 3 or i - j < 2)", "(j <= i and j < 4) or j < i - 2", "i - j >= 0",
        "not (i < j)", "min(i, 5) >= j", "j <= max(i - 1, 0) and i >= 0", "abs(i - j) == i - j",
        "i % 4 + i // 4 * 4 >= j", "j < 2 and i >= 2", "where(i > 3, i, i - 1) >= j", "j // 1 <= i",
    ],
)  # fmt: skip
def test_implies_causal_however_spelled(text: str) -> None:
    assert mask_facts(mask(text)).implies_causal


@pytest.mark.parametrize(
    "text",
    ["j < 4", "j <= i + 1", "i // 4 == j // 4", "j <= i or j < 2", "j != i", "not (j <= i)"],
)
def test_does_not_imply_causal(text: str) -> None:
    assert not mask_facts(mask(text)).implies_causal


@pytest.mark.parametrize(
    "text", ["j <= i", "not (i < j)", "j < i + 1 and j <= i", "2 * (i - j) >= 0"]
)
def test_is_causal(text: str) -> None:
    both = call(Op.AND, call(Op.AND, mask(text), SAME), call(Op.LT, J, LENGTH))
    facts = mask_facts(both)
    assert facts.is_causal
    assert facts.same_factors == (SAME,)
    assert facts.key_factors == (call(Op.LT, J, LENGTH),)


@pytest.mark.parametrize("text", ["j < i", "j <= i and i - j < 4", "j <= i and i < 7", "j < 3"])
def test_is_not_causal(text: str) -> None:
    assert not mask_facts(mask(text)).is_causal


def test_factors_of_a_negated_alternative() -> None:
    facts = mask_facts(mask("not (j > i or j < 2)"))
    assert len(facts.key_factors) == len(facts.pair_factors) == 1
    assert facts.is_causal


@pytest.mark.parametrize(
    ("text", "first", "past"),
    [
        ("j <= i", None, "i + 1"),
        ("i - 4 < j and j <= i", "i - 3", "i + 1"),
        ("i // 4 == j // 4", "4 * (i // 4)", "4 * (i // 4) + 4"),
        ("i - 2 <= j and j <= i + 3", "i - 2", "i + 4"),
        ("j < 4", None, "4"),
        ("j <= i and (i - j < 3 or j < 2)", None, "i + 1"),
        ("abs(i - j) < 3", "i - 2", "i + 3"),
    ],
)
def test_key_ranges(text: str, first: str | None, past: str | None) -> None:
    facts = mask_facts(mask(text))
    env = Env(dims={"S": KEYS}, indices={IndexName.QUERY: np.arange(-5, 20)})
    for found, wanted in ((facts.first_key, first), (facts.past_key, past)):
        assert (found is None) == (wanted is None)
        if found is not None and wanted is not None:
            assert (evaluate(found, env) == evaluate(mask(wanted), env)).all()


def test_a_comparison_of_documents_is_never_certain() -> None:
    same_place = call(Op.EQ, Tensor(RUNS, (B, I)), Tensor(RUNS, (B, I)))
    assert tile(same_place, (-3, 3), (0, 4)) is Tile.PARTIAL
    assert not mask_facts(call(Op.NOT, same_place)).implies_causal


def test_tiles_of_causal() -> None:
    causal = mask("j <= i")
    assert tile(causal, (0, 4), (4, 8)) is Tile.EMPTY
    assert tile(causal, (4, 8), (0, 4)) is Tile.FULL
    assert tile(causal, (0, 4), (0, 4)) is Tile.PARTIAL
    assert tile(mask("i // 4 == j // 4"), (4, 8), (4, 8)) is Tile.FULL
    assert tile(None, (0, 4), (0, 4)) is Tile.FULL
