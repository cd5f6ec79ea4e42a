"""The meaning on cases small enough to compute by hand: the only numbers typed by a person."""

import math

import numpy as np
import pytest

from attnc.ir.expr import Dim, Row, RowName, call
from attnc.ir.meaning import Matrix, meaning
from attnc.ir.ops import Op
from attnc.ir.sizes import Size
from attnc.ir.spec import Align, Normalizer, Read
from attnc.ir.types import Kind

from tests.building import CAUSAL, QK, B, H, I, J, K, Q, V, O, both, declare, read, spec  # isort: skip
from tests.golden import golden_cases, spec_of

OFF = {"similarity": QK, "normalizer": None}


def rows(*values):
    """[1, 1, n, d] from rows, or from numbers as rows of one."""
    return np.array([[[np.atleast_1d(v) for v in values]]], float)


def run(made, q, k, v, tensors=None, state=None):
    return meaning(made, rows(*q), rows(*k), rows(*v), tensors, state)


@pytest.mark.parametrize("case", golden_cases(), ids=lambda c: c["name"])
def test_golden(case):
    inputs = (np.array(case["inputs"][n], float) for n in "qkv")
    got = meaning(spec_of(case["spec"]), *inputs).o
    want = np.array(case["expect"]["o"])
    assert np.abs(got - want).max() <= case["tolerance"] * max(1, np.abs(want).max())


def test_weights_of_a_softmax():
    got = run(spec(), (0, 2), (1, 3), (10, 20))
    e = math.exp(-4)
    assert got.o[0, 0, :, 0] == pytest.approx([10, (10 * e + 20) / (1 + e)])
    assert got.lse[0, 0] == pytest.approx([0, 6 + math.log1p(e)])


def test_scores_of_any_size():
    got = run(spec(), (1, 1), (6e4, 6e4 - 1), (1, 2))
    assert got.o[0, 0, 1, 0] == pytest.approx(1 + 1 / (1 + math.e))
    assert got.lse[0, 0, 0] == 6e4


def test_rows_without_keys_are_zero():
    got = run(spec(), (1, 1, 1), (2,), (5,))
    assert got.o[0, 0, :, 0].tolist() == [0, 0, 5]
    assert got.lse[0, 0].tolist() == [-np.inf, -np.inf, 2]


def test_decay_multiplies_the_steps_after_the_key():
    g = declare("g", "B", "H", "S")
    made = spec(**OFF, tensors=(g,), decay=read(g, B, H, J))
    got = run(made, (1, 1, 1), (1, 1, 1), (1, 10, 100), {"g": np.array([[[0.9, 0.5, 0.25]]])})
    assert got.o[0, 0, :, 0] == pytest.approx([1, 0.5 + 10, 0.125 + 2.5 + 100])
    made = spec(**OFF, tensors=(g,), decay=read(g, B, H, J), read=Read.BEFORE)
    before = run(made, (1, 1, 1), (1, 1, 1), (1, 10, 100), {"g": np.array([[[0.9, 0.5, 0.25]]])})
    assert before.o[0, 0, :, 0] == pytest.approx([0, 1, 0.5 + 10])


def test_a_decay_of_zero_forgets():
    g = declare("g", "S")
    made = spec(**OFF, tensors=(g,), decay=call(Op.EXP, read(g, J)))
    got = run(made, (1, 1), (1, 1), (1, 10), {"g": np.array([0.0, -np.inf])})
    assert got.o[0, 0, :, 0].tolist() == [1, 10]


def test_decay_per_channel():
    g = declare("g", "S", "d_k")
    made = spec(**OFF, tensors=(g,), decay=read(g, J, None))
    got = meaning(made, rows((1, 1), (1, 1)), rows((1, 1), (1, 1)), rows(1, 10),
                  {"g": np.array([[0.3, 0.3], [0.5, 0.25]])})  # fmt: skip
    assert got.o[0, 0, :, 0] == pytest.approx([2, 0.75 + 20])


def test_padding_neither_counts_nor_decays():
    n, g = declare("n", "B", kind=Kind.INT), declare("g", "S")
    hidden = call(Op.NE, J, read(n, B))
    made = spec(**OFF, tensors=(n, g), mask=both(CAUSAL, hidden), decay=read(g, J))
    values = {"n": np.array([1]), "g": np.array([0.5, np.nan, 0.5])}
    got = run(made, (1, 1, 1), (1, np.nan, 1), (1, np.nan, 100), values)
    assert got.o[0, 0, :, 0] == pytest.approx([1, 1, 0.5 + 100])


def test_normalizers():
    def normalized(**how):
        made = spec(similarity=QK, normalizer=Normalizer(**how))
        return run(made, (1, 1), (1, -3), (1, 1)).o[0, 0, :, 0]

    one = call(Op.ADD, H, 1)
    assert normalized() == pytest.approx([1, 1])
    assert normalized(eps=one) == pytest.approx([0.5, 2])
    assert normalized(floor=call(Op.ADD, H, 4)) == pytest.approx([0.25, -0.5])


def test_softmax_plus_one():
    made = spec(normalizer=Normalizer(eps=call(Op.EXP, call(Op.MUL, H, 1.0))))
    got = run(made, (1,), (-800,), (1,))
    assert got.o.item() == 0 and got.lse.item() == -800
    assert run(made, (1,), (0,), (1,)).o.item() == 0.5


def test_delta_overwrites():
    made = spec(**OFF, beta=call(Op.ADD, call(Op.MUL, H, 0.0), 1))
    got = run(made, (1, 1), (1, 1), (3, 5))
    assert got.o[0, 0, :, 0].tolist() == [3, 5]
    half = spec(**OFF, beta=call(Op.ADD, call(Op.MUL, H, 0.0), 0.5))
    assert run(half, (1, 1), (1, 1), (3, 5)).o[0, 0, :, 0].tolist() == [1.5, 3.25]


def test_a_document_that_returns_is_another():
    doc = declare("doc", "B", "S", kind=Kind.INT)
    same = call(Op.EQ, read(doc, B, I, runs=True), read(doc, B, J, runs=True))
    made = spec(**OFF, tensors=(doc,), mask=both(CAUSAL, same))
    got = run(made, (1, 1, 1, 1), (1, 1, 1, 1), (1, 2, 4, 8), {"doc": np.array([[7, 7, 3, 7]])})
    assert got.o[0, 0, :, 0].tolist() == [1, 3, 4, 8]


def test_a_position_outside_makes_its_comparison_false():
    doc = declare("doc", "S", kind=Kind.INT)
    mask = call(Op.GE, read(doc, I), 0)
    made = spec(**OFF, tensors=(doc,), mask=mask)
    got = run(made, (1, 1, 1), (1, 1), (1, 2), {"doc": np.array([1, 1])})
    assert got.o[0, 0, :, 0].tolist() == [0, 3, 3]


def test_indices_clamp_to_the_edge():
    bias = declare("bias", 2)
    made = spec(
        similarity=read(bias, call(Op.SUB, I, J)), normalizer=None, tensors=(bias,), mask=CAUSAL
    )
    got = run(made, (1, 1, 1), (1, 1, 1), (1, 10, 100), {"bias": np.array([1.0, 0.5])})
    assert got.o[0, 0, :, 0] == pytest.approx([1, 10.5, 105.5])


def test_heads_are_shared_in_groups():
    q, k = np.ones((1, 4, 1, 1)), np.arange(1.0, 3).reshape(1, 2, 1, 1)
    got = meaning(spec(**OFF), q, k, np.full((1, 1, 1, 1), 10.0))
    assert got.o[0, :, 0, 0].tolist() == [10, 10, 20, 20]


def test_output_reads_its_own_key_and_value():
    own = Row(RowName.OWN_V, Size.of("d_v"))
    made = spec(**OFF, output=call(Op.SUB, O, own))
    assert run(made, (1, 1, 1), (1, 1), (1, 2)).o[0, 0, :, 0].tolist() == [0, 0, 1]


def test_clauses_of_rows():
    made = spec(
        **OFF,
        query=call(Op.MUL, Q, 2),
        key=call(Op.DIV, K, call(Op.NORM, K)),
        value=call(Op.CONCAT, V, Dim(Size.of("S"))),
        output=call(Op.MUL, O, 10),
    )
    got = run(made, (1, 1), (-5, 0), (1, 2))
    assert got.o[0, 0].tolist() == [[-20, -40], [-20, -40]]


def test_nan_in_a_query_stays():
    got = run(spec(), (np.nan, 1), (1, 1), (1, 1)).o[0, 0, :, 0]
    assert np.isnan(got[0]) and got[1] == 1


@pytest.mark.parametrize("align", list(Align))
@pytest.mark.parametrize("split", [0, 1, 3, 6])
def test_any_split_continues(align, split):
    random = np.random.default_rng(split)
    g, doc = declare("g", "B", "H", "S"), declare("doc", "B", "S", kind=Kind.INT)
    same = call(Op.EQ, read(doc, B, I, runs=True), read(doc, B, J, runs=True))
    made = spec(tensors=(g, doc), align=align, mask=both(CAUSAL, same),
                decay=call(Op.SIGMOID, read(g, B, H, J)))  # fmt: skip
    q, k, v = (random.normal(size=(2, 2, 6, d)) for d in (3, 3, 4))
    given = {"g": random.normal(size=(2, 2, 6)), "doc": random.integers(0, 2, (2, 6))}
    whole = meaning(made, q, k, v, given)
    state, parts = None, []
    for at in (slice(0, split), slice(split, 6)):
        own = {"g": given["g"][..., at], "doc": given["doc"][..., at]}
        part = meaning(made, q[:, :, at], k[:, :, at], v[:, :, at], own, state)
        state = part.state
        parts.append(part.o)
    assert np.abs(np.concatenate(parts, 2) - whole.o).max() < 1e-13


def test_a_matrix_stands_for_earlier_keys():
    random = np.random.default_rng(1)
    g, doc = declare("g", "S"), declare("doc", "B", "S", kind=Kind.INT)
    same = call(Op.EQ, read(doc, B, I, runs=True), read(doc, B, J, runs=True))
    made = spec(similarity=QK, normalizer=Normalizer(signed=True), tensors=(g, doc),
                mask=both(CAUSAL, same), decay=call(Op.EXP, read(g, J)))  # fmt: skip
    q, k, v = (random.normal(size=(1, 2, 5, d)) for d in (3, 3, 4))
    given = {"g": -random.random(5), "doc": np.array([[1, 2, 2, 2, 3]])}
    whole = meaning(made, q, k, v, given)
    a = np.exp(given["g"])
    S = np.zeros((1, 2, 3, 4))
    z = np.zeros((1, 2, 3))
    for t in (1, 2):  # the first token is another document's
        S = a[t] * S + k[:, :, t, :, None] * v[:, :, t, None]
        z = a[t] * z + k[:, :, t]
    state = Matrix(S, z, 3, Q, K, {"doc": np.array([2])})
    rest = {"g": given["g"][3:], "doc": given["doc"][:, 3:]}
    part = meaning(made, q[:, :, 3:], k[:, :, 3:], v[:, :, 3:], rest, state)
    assert np.abs(part.o - whole.o[:, :, 3:]).max() < 1e-13


@pytest.mark.parametrize("empty", ["B", "L", "S"])
def test_empty_tensors(empty):
    sizes = {"B": 2, "L": 3, "S": 4} | {empty: 0}
    q = np.ones((sizes["B"], 1, sizes["L"], 2))
    k = np.ones((sizes["B"], 1, sizes["S"], 2))
    got = meaning(spec(), q, k, k)
    assert (got.o.shape == q.shape and not got.o.any()) or empty != "S"
