"""The generated reference is what the meaning says, and autograd is right through it."""

import importlib.util
import math

import numpy as np
import pytest
import torch

from attnc.emit.reference import render_reference
from attnc.ir.expr import Dim, Number, Row, RowName, call
from attnc.ir.meaning import Matrix, meaning
from attnc.ir.ops import Op, Shape
from attnc.ir.sizes import Size
from attnc.ir.spec import Align, Normalizer, Read
from attnc.ir.types import Kind
from attnc.passes.lower_reference import lower_reference
from attnc.resources import folder
from tests.building import (
    CAUSAL,
    D_K,
    D_V,
    QK,
    B,
    H,
    I,
    J,
    K,
    O,
    Q,
    V,
    both,
    declare,
    facts,
    read,
    spec,
)
from tests.golden import golden_cases, spec_of

DIMS = {"B": 2, "H": 4, "G": 2, "L": 5, "S": 5, "d_k": 4, "d_v": 3, "m": 3, "n_buckets": 4}


@pytest.fixture
def build(tmp_path):
    def made(*parts):
        text = render_reference(lower_reference(*parts), [str(folder("templates"))])
        path = tmp_path / "made.py"
        path.write_text(f"import math\n\nimport torch\n\n\n{text}")
        found = importlib.util.spec_from_file_location("made", path)
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        module.text = text
        return module._reference

    return made


def values(decl, dims, random):
    shape = [s.evaluate(dims) for s in decl.dims]
    if decl.kind is Kind.INT:
        return random.integers(0, 3, shape)
    if decl.kind is Kind.BOOL:
        return random.random(shape) < 0.7
    return random.normal(size=shape)


def inputs(made, dims, seed=0):
    random = np.random.default_rng(seed)
    q = random.normal(size=(dims["B"], dims["H"], dims["L"], dims["d_k"]))
    k = random.normal(size=(dims["B"], dims["G"], dims["S"], dims["d_k"]))
    v = random.normal(size=(dims["B"], 1, dims["S"], dims["d_v"]))
    return q, k, v, {t.name: values(t, dims, random) for t in made.tensors}


def tensors(arrays, grad=False):
    return [
        torch.from_numpy(np.asarray(a)).requires_grad_(grad and np.asarray(a).dtype.kind == "f")
        for a in arrays
    ]


def call_torch(reference, made, q, k, v, given, **options):
    arguments = tensors([q, k, v, *(given[t.name] for t in made.tensors)])
    return reference(*arguments, **options)


def same(got, want, limit=1e-12):
    got = got.numpy()
    assert got.shape == want.shape
    assert (np.isnan(got) == np.isnan(want)).all()
    infinite = np.isinf(want)
    assert (got[infinite] == want[infinite]).all()
    scale = np.maximum(1, np.abs(np.where(np.isfinite(want), want, 0)))
    close = np.where(np.isfinite(want), got - want, 0) / scale
    assert np.abs(close).max(initial=0) <= limit


slope, g, gate = (
    declare("slope", "H"),
    declare("g", "B", "H", "S"),
    declare("gate", "B", "L", "d_v"),
)
beta, channel = declare("beta", "B", "G", "S"), declare("channel", "B", "H", "S", "d_k")
doc, lengths = declare("doc", "B", "S", kind=Kind.INT), declare("len", "B", kind=Kind.INT)
bias, table = declare("bias", "B", "H", "L", "S"), declare("table", "H", "n_buckets")
weight, sink = declare("weight", "m", "d_k"), declare("sink", "H")
flags, scale = declare("row", "S", kind=Kind.BOOL), declare("start", 1, "S")
heads = declare("torch", "d_k", "H")
KEYS = call(Op.LT, J, call(Op.ADD, read(lengths, B), 2))
SAME = call(Op.EQ, read(doc, B, I, runs=True), read(doc, B, J, runs=True))
SCALED = call(Op.DIV, QK, call(Op.SQRT, Dim(D_K)))
WINDOW = call(Op.LT, call(Op.SUB, I, 2), J)
RETENTION = call(Op.SUB, 1, call(Op.POW, 2, call(Op.SUB, -5, H)))
SIGNED = Normalizer(signed=True)
PHI = call(Op.EXP, Q)
PSI = call(Op.EXP, K)
HALF = call(Op.FLOORDIV, Dim(D_K), 2)
OWN = Row(RowName.OWN_K, D_K), Row(RowName.OWN_V, D_V)
ROW_PSI = call(Op.MUL, PSI, call(Op.SIGMOID, read(g, B, H, J)))

# name: spec, and (phi, psi) where the similarity factorizes
CASES = {
    "softmax": (spec(similarity=call(Op.EXP, SCALED)), ()),
    "upper_left": (spec(align=Align.UPPER_LEFT), ()),
    "everything": (spec(mask=None, align=None), ()),
    "window_or_prefix": (
        spec(mask=both(CAUSAL, call(Op.OR, WINDOW, call(Op.LT, J, 1)), KEYS), tensors=(lengths,)),
        (),
    ),
    "negation": (spec(mask=both(CAUSAL, call(Op.NOT, call(Op.EQ, I, J)))), ()),
    "blocks": (spec(mask=call(Op.EQ, call(Op.FLOORDIV, I, 2), call(Op.FLOORDIV, J, 2))), ()),
    "per_head_and_batch": (
        spec(mask=both(CAUSAL, call(Op.OR, call(Op.LT, H, 2), call(Op.EQ, B, 0)))),
        (),
    ),
    "same": (spec(mask=both(CAUSAL, SAME), tensors=(doc,)), ()),
    "same_ids": (
        spec(mask=call(Op.EQ, read(doc, B, I), read(doc, B, J)), tensors=(doc,)),
        (),
    ),
    "flags_named_like_locals": (
        spec(mask=both(CAUSAL, call(Op.OR, read(flags, J), call(Op.EQ, I, J))),
             tensors=(flags, scale, heads, lengths),
             similarity=call(Op.EXP, call(Op.ADD, call(Op.MUL, QK, read(scale, Number(0), J)),
                                          call(Op.DOT, read(heads, None, H), K)))),
        (),
    ),
    "bias_and_table": (
        spec(similarity=call(Op.EXP, both(SCALED, read(bias, B, H, I, J),
                                          read(table, H, call(Op.SUB, I, J)), op=Op.ADD)),
             tensors=(bias, table)),
        (),
    ),
    "alibi": (
        spec(decay=call(Op.EXP, call(Op.NEG, call(Op.EXP, read(slope, H)))), tensors=(slope,)),
        (),
    ),
    "forgetting": (spec(decay=call(Op.SIGMOID, read(g, B, H, J)), tensors=(g,)), ()),
    "softmax_plus_one": (spec(normalizer=Normalizer(eps=Number(1))), ()),
    "sink": (
        spec(normalizer=Normalizer(eps=call(Op.EXP, read(sink, H))), tensors=(sink,)),
        (),
    ),
    "softmax_floor": (spec(normalizer=Normalizer(floor=Number(2))), ()),
    "exponential_times_factors": (
        spec(similarity=call(Op.DIV, call(Op.MUL, call(Op.SIGMOID, read(g, B, H, J)),
                                          call(Op.EXP, QK)), call(Op.EXP, call(Op.SUM, K))),
             tensors=(g,)),
        (),
    ),
    "additive_attention": (
        spec(similarity=call(Op.EXP, call(Op.SUM, call(Op.TANH, call(Op.ADD, Q, K))))),
        (),
    ),
    "exponential_unnormalized": (spec(normalizer=None), ()),
    "polynomial": (spec(similarity=call(Op.ADD, 1, call(Op.POW, QK, 2))), ()),
    "retention": (spec(similarity=QK, decay=RETENTION, normalizer=None), (Q, K)),
    "linear": (spec(similarity=call(Op.DOT, PHI, PSI)), (PHI, PSI)),
    "linear_everything": (
        spec(similarity=call(Op.DOT, PHI, PSI), mask=None, align=None),
        (PHI, PSI),
    ),
    "linear_padded": (
        spec(similarity=call(Op.DOT, PHI, PSI), mask=both(CAUSAL, KEYS, SAME),
             tensors=(lengths, doc), decay=RETENTION),
        (PHI, PSI),
    ),
    "linear_eps": (
        spec(similarity=call(Op.DOT, PHI, PSI), normalizer=Normalizer(eps=Number(0.5))),
        (PHI, PSI),
    ),
    "mlstm": (
        spec(similarity=QK, decay=call(Op.SIGMOID, read(g, B, H, J)), tensors=(g,),
             normalizer=Normalizer(floor=Number(1))),
        (Q, K),
    ),
    "read_before": (
        spec(similarity=QK, decay=call(Op.EXP, call(Op.NEG, call(Op.ABS, read(g, B, H, J)))),
             tensors=(g, doc), read=Read.BEFORE, normalizer=SIGNED, mask=both(CAUSAL, SAME)),
        (Q, K),
    ),
    "channels": (
        spec(similarity=call(Op.DOT, Q, K), decay=call(Op.SIGMOID, read(channel, B, H, J, None)),
             tensors=(channel,), normalizer=None, mask=both(CAUSAL)),
        (Q, K),
    ),
    "factor_on_the_key": (
        spec(similarity=call(Op.MUL, call(Op.DOT, PHI, PSI), call(Op.SIGMOID, read(g, B, H, J))),
             tensors=(g,)),
        (PHI, ROW_PSI),
    ),
    "delta": (
        spec(similarity=QK, key=call(Op.DIV, K, call(Op.NORM, K)), normalizer=None,
             decay=call(Op.SIGMOID, read(g, B, H, J)), tensors=(g, beta),
             beta=call(Op.SIGMOID, read(beta, B, H, J))),
        (Q, K),
    ),
    "delta_padded_documents": (
        spec(similarity=QK, normalizer=None, tensors=(beta, lengths, doc), decay=RETENTION,
             mask=both(CAUSAL, KEYS, SAME), beta=call(Op.SIGMOID, read(beta, B, H, J))),
        (Q, K),
    ),
    "delta_read_before": (
        spec(similarity=QK, normalizer=None, tensors=(beta, doc), decay=RETENTION,
             read=Read.BEFORE, mask=both(CAUSAL, SAME), beta=call(Op.SIGMOID, read(beta, B, H, J))),
        (Q, K),
    ),
    "delta_channels": (
        spec(similarity=QK, normalizer=None, tensors=(beta, channel),
             decay=call(Op.SIGMOID, read(channel, B, H, J, None)),
             beta=call(Op.SIGMOID, read(beta, B, H, J))),
        (Q, K),
    ),
    "delta_window": (
        spec(similarity=QK, normalizer=None, tensors=(beta,), decay=RETENTION,
             mask=both(CAUSAL, WINDOW), beta=call(Op.SIGMOID, read(beta, B, H, J))),
        (Q, K),
    ),
    "clauses_of_rows": (
        spec(query=call(Op.MATMUL, read(weight, None, None), Q),
             key=call(Op.MATMUL, read(weight, None, None), K),
             value=call(Op.CONCAT, V, call(Op.ELEMENT, K, 0), 1),
             similarity=call(Op.EXP, call(Op.DOT, Row(RowName.Q, Size.of("m")),
                                          Row(RowName.K, Size.of("m")))),
             output=call(Op.MUL, Row(RowName.O, D_V + Size.of(2)), 2),
             tensors=(weight,)),
        (),
    ),
    "positions_in_rows": (
        spec(query=call(Op.ROTATE, Q, call(Op.MUL, I, call(Op.RANGE, HALF))),
             key=call(Op.ROTATE, K, call(Op.MUL, J, call(Op.RANGE, HALF)))),
        (),
    ),
    "output": (
        spec(output=both(O, call(Op.MUL, OWN[1], call(Op.DOT, Q, OWN[0])),
                         call(Op.SIGMOID, read(gate, B, I, None)), op=Op.MUL), tensors=(gate,)),
        (),
    ),
    "heads_in_the_spec": (spec(heads=8, mask=both(CAUSAL, call(Op.LE, H, 6))), ()),
}  # fmt: skip
SHAPES = {
    "square": {},
    "more_rows": {"L": 7, "S": 4},
    "more_keys": {"L": 3, "S": 6},
    "one": {"L": 1},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", SHAPES)
def test_reference_is_the_meaning(build, name, shape):
    made, sides = CASES[name]
    reference = build(made, facts(made, *sides))
    q, k, v, given = inputs(made, DIMS | SHAPES[shape])
    want = meaning(made, q, k, v, given)
    o, lse, _, live = call_torch(reference, made, q, k, v, given)
    same(o, want.o)
    if want.lse is not None:
        same(lse, want.lse)
    assert live.shape[-1] == k.shape[2]


@pytest.mark.parametrize("name", CASES)
def test_gradients(build, name):
    made, sides = CASES[name]
    reference = build(made, facts(made, *sides))
    small = DIMS | {"B": 2, "H": 2, "G": 1, "L": 4, "S": 3, "d_k": 4, "d_v": 2}
    q, k, v, given = inputs(made, small, 1)
    arguments = tensors([q, k, v, *(given[t.name] for t in made.tensors)], grad=True)

    def total(*arguments):
        o, lse, _, _ = reference(*arguments)
        finite = () if lse is None else (torch.where(torch.isinf(lse), 0, lse),)
        return o, *finite

    assert torch.autograd.gradcheck(total, arguments, atol=1e-6, fast_mode=True)


FACTORIZED = [n for n, (made, sides) in CASES.items() if sides and n not in ("delta_window",)]


@pytest.mark.parametrize("name", FACTORIZED)
def test_the_state_goes_on(build, name):
    made, sides = CASES[name]
    reference = build(made, facts(made, *sides))
    q, k, v, given = inputs(made, DIMS | {"L": 6, "S": 6}, 2)
    whole, _, end, _ = call_torch(reference, made, q, k, v, given)
    over_keys = {t.name: t.axis_of("S") for t in made.tensors if t.axis_of("S") is not None}

    def part(at):
        cut = {n: np.take(x, range(6)[at], over_keys[n]) if n in over_keys else x
               for n, x in given.items()}  # fmt: skip
        return q[:, :, at], k[:, :, at], v[:, :, at], cut

    first = call_torch(reference, made, *part(slice(0, 2)))
    last = [torch.from_numpy(given["doc"][:, 1])] if "doc" in given else []
    options = {"start": 2, "past": first[2], "before": tuple(last)}
    second = call_torch(reference, made, *part(slice(2, 6)), **options)
    if made.mask is not None:  # without a mask the first rows do not see the later keys
        same(first[0], whole[:, :, :2].numpy())
    same(second[0], whole[:, :, 2:].numpy())
    same(second[2][0], end[0].numpy())
    if made.normalizer is not None:
        same(second[2][1], end[1].numpy())
    if name != "linear_padded":  # a matrix in the meaning is given its keys' own side
        truth = Matrix(first[2][0].numpy(), None, 2, *sides)
        if made.normalizer is not None:
            truth = Matrix(first[2][0].numpy(), first[2][1].numpy(), 2, *sides,
                           {"doc": given["doc"][:, 1]} if "doc" in given else {})  # fmt: skip
        elif "doc" in given:
            truth = Matrix(truth.S, None, 2, *sides, {"doc": given["doc"][:, 1]})
        same(second[0], meaning(made, *part(slice(2, 6)), state=truth).o)


def _number(op):
    """A number that the operation makes of numbers of a pair."""
    x, y = call(Op.MUL, SCALED, 0.5), call(Op.SIGMOID, read(g, B, H, J))
    if op in (Op.LOG, Op.LOG2, Op.SQRT, Op.POW):
        x = call(Op.ADD, call(Op.ABS, x), 0.3)
    match op.info.arity:
        case 1:
            return call(op, x)
        case 2:
            return call(op, x, y)
    return call(op, x, -0.2, y)


def _row(op):
    """A number that the operation makes of a row of the key, times one of the query."""
    match op:
        case Op.SUM | Op.MEAN | Op.AMAX | Op.NORM | Op.SIZE:
            return call(Op.MUL, call(op, Q), call(op, K))
        case Op.CONCAT | Op.OUTER:
            return call(Op.DOT, call(op, K, Q), call(op, Q, K))
        case Op.ROLL:
            return call(Op.DOT, Q, call(op, K, 1))
        case Op.SLICE:
            return call(Op.DOT, call(op, Q, 0, 4, 2), call(op, K, 1, 3, 1))
        case Op.ELEMENT:
            return call(op, call(Op.MUL, Q, K), 2)
        case Op.RANGE:
            return call(Op.SUM, call(Op.MUL, call(Op.MUL, Q, call(op, Dim(D_K))), K))
        case Op.MATMUL:
            return call(Op.DOT, *(call(op, read(weight, None, None), x) for x in (Q, K)))
        case Op.ROTATE:
            return call(Op.DOT, *(call(op, x, call(Op.SLICE, K, 0, HALF, 1)) for x in (Q, K)))
        case Op.SYMMETRIC_POWER:
            return call(Op.DOT, call(op, Q, 2), call(op, K, 2))
        case Op.DOT:
            return QK
    return call(Op.DOT, call(op, Q), call(op, K))


SCALARS = [op for op in Op if op.info.shape in (Shape.ARITHMETIC, Shape.DIVISION, Shape.POWER,
           Shape.ELEMENTWISE)]  # fmt: skip
TRUTHS = [op for op in Op if op.info.shape in (Shape.COMPARISON, Shape.LOGICAL, Shape.CHOICE)]
ROWS = [op for op in Op if op not in SCALARS and op not in TRUTHS]
SIMILARITIES = {op: _number(op) for op in SCALARS} | {op: _row(op) for op in ROWS}
LESS, MORE = call(Op.LT, SCALED, 0.1), call(Op.GT, read(g, B, H, J), -0.5)
SIMILARITIES |= {
    op: call(Op.WHERE, call(op, SCALED, read(g, B, H, J)), SCALED, 2)
    for op in TRUTHS
    if op.info.shape is Shape.COMPARISON
}
SIMILARITIES |= {
    Op.AND: call(Op.WHERE, call(Op.AND, LESS, MORE), SCALED, read(g, B, H, J)),
    Op.OR: call(Op.WHERE, call(Op.OR, LESS, MORE), SCALED, read(g, B, H, J)),
    Op.NOT: call(Op.WHERE, call(Op.NOT, LESS), SCALED, read(g, B, H, J)),
    Op.WHERE: call(Op.WHERE, LESS, call(Op.SQRT, call(Op.SUB, 0.1, SCALED)), 0),
}


def test_every_operation_is_covered():
    assert set(Op) == SIMILARITIES.keys()


@pytest.mark.parametrize("op", list(Op), ids=lambda op: op.name)
def test_operations(build, op):
    made = spec(similarity=SIMILARITIES[op], normalizer=None, tensors=(g, weight))
    reference = build(made, facts(made))
    q, k, v, given = inputs(made, DIMS | {"H": 2, "G": 1, "L": 3, "S": 4}, 3)
    same(call_torch(reference, made, q, k, v, given)[0], meaning(made, q, k, v, given).o)
    arguments = tensors([q, k, v, given["g"], given["weight"]], grad=True)
    if op in (Op.FLOOR, Op.FLOORDIV, Op.SIZE):
        return  # their slope is 0 or none: nothing to check by differences
    assert torch.autograd.gradcheck(
        lambda *a: reference(*a)[0], arguments, atol=1e-5, fast_mode=True
    )


@pytest.mark.parametrize("case", golden_cases(), ids=lambda c: c["name"])
def test_golden(build, case):
    made = spec_of(case["spec"])
    sides = made.similarity.args if made.similarity.op is Op.DOT else ()
    reference = build(made, facts(made, *sides))
    q, k, v = (
        torch.tensor(case["inputs"][n], dtype=torch.float64, requires_grad=True) for n in "qkv"
    )
    o = reference(q, k, v)[0]
    o.sum().backward()
    got = {"o": o.detach(), "dq": q.grad, "dk": k.grad, "dv": v.grad}
    for name, want in case["expect"].items():
        want = torch.tensor(want, dtype=torch.float64)
        limit = case["tolerance"] * max(1, want.abs().max().item())
        assert (got[name] - want).abs().max() <= limit, name
    assert all(torch.isfinite(x.grad).all() for x in (q, k, v))


def gradients(reference, *arguments):
    arguments = [a.requires_grad_() if a.is_floating_point() else a for a in arguments]
    o, lse, _, _ = reference(*arguments)
    o.sum().backward()
    found = [a.grad for a in arguments if a.is_floating_point() and a.grad is not None]
    return o.detach(), lse, found


def test_empty_rows(build):
    """B05, B37: rows without a key are exactly 0, and so are their gradients."""
    made = spec()
    q, k, v = torch.randn(1, 1, 8, 3), torch.randn(1, 1, 4, 3), torch.randn(1, 1, 4, 2)
    o, lse, grads = gradients(build(made, facts(made)), q, k, v)
    assert (o[:, :, :4] == 0).all() and (lse[:, :, :4] == -math.inf).all()
    assert (grads[0][:, :, :4] == 0).all() and (grads[0][:, :, 5:] != 0).any()
    assert all(torch.isfinite(x).all() for x in grads)


@pytest.mark.parametrize("name", ["linear_eps", "mlstm", "linear", "sink"])
def test_empty_rows_of_any_normalizer(build, name):
    made, sides = CASES[name]
    q, k, v, given = inputs(made, DIMS | {"L": 7, "S": 3})
    arguments = tensors([q, k, v, *(given[t.name] for t in made.tensors)])
    o, _, grads = gradients(build(made, facts(made, *sides)), *arguments)
    assert (o[:, :, :4] == 0).all() and all(torch.isfinite(x).all() for x in grads)


@pytest.mark.parametrize("similarity", [
    call(Op.EXP, call(Op.ADD, QK, call(Op.LOG, read(g, B, H, J)))),
    call(Op.MUL, QK, call(Op.LOG, read(g, B, H, J))),
    call(Op.DOT, Q, call(Op.DIV, K, read(g, B, H, J))),
    call(Op.MUL, call(Op.EXP, QK), QK),
])  # fmt: skip
def test_nan_at_hidden_keys_has_no_effect(build, similarity):
    """B41, B45: padding of any content, values and gradients."""
    made = spec(similarity=similarity, mask=both(CAUSAL, KEYS), tensors=(g, lengths),
                normalizer=SIGNED)  # fmt: skip
    reference = build(made, facts(made))
    q, k, v, given = inputs(made, DIMS | {"L": 5, "S": 5})
    given["g"] = np.abs(given["g"]) + 0.1
    given["len"] = np.array([1, 2])  # 3 and 4 keys
    results = []
    for filler in (1.0, np.nan, np.inf):
        for x in (k, v, given["g"][..., None]):
            x[0, :, 3:], x[1, :, 4:] = filler, filler
        arguments = tensors([x.copy() for x in (q, k, v, given["g"], given["len"])])
        o, _, grads = gradients(reference, *arguments)
        results.append([o, *grads])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert torch.equal(a, b)
    same(results[0][0], meaning(made, q, k, v, given).o)


def test_nan_in_a_query_stays_in_its_row(build):
    """B40."""
    made = spec()
    q, k, v = torch.randn(2, 4, 16, 8), torch.randn(2, 4, 16, 8), torch.randn(2, 4, 16, 3)
    reference = build(made, facts(made))
    clean = reference(q, k, v)[0]
    q[0, 1, 5] = math.nan
    o = reference(q, k, v)[0]
    assert torch.isnan(o[0, 1, 5]).all() and torch.isnan(o).sum() == 3
    keep = ~torch.isnan(o)
    assert torch.equal(o[keep], clean[keep])


def test_forbidden_scores_overflow_nowhere(build):
    similarity = call(Op.MUL, call(Op.EXP, QK), QK)
    made = spec(similarity=similarity, normalizer=None)
    q = k = torch.tensor([1.0, 1000.0])[None, None, :, None].double()
    v = torch.ones(1, 1, 2, 1).double()
    o, _, grads = gradients(build(made, facts(made)), q.clone()[:, :, :1], k.clone(), v)
    assert torch.isinf(o).all() or torch.isfinite(o).all()
    upper = spec(similarity=similarity, normalizer=None, align=Align.UPPER_LEFT)
    o, _, grads = gradients(build(upper, facts(upper)), q.clone()[:, :, :1], k.clone(), v.detach())
    assert o.item() == pytest.approx(math.e) and all(torch.isfinite(x).all() for x in grads)


def test_small_features_survive(build):
    """B07: elu(x) + 1 at -8, normalized."""
    elu1 = lambda x: call(Op.ADD, call(Op.ELU, x), 1)  # noqa: E731
    made = spec(similarity=call(Op.DOT, elu1(Q), elu1(K)))
    x = torch.full((1, 1, 1, 1), -8.0, dtype=torch.float64)
    o, _, grads = gradients(build(made, facts(made)), x.clone(), x.clone(), torch.ones_like(x))
    assert o.item() == pytest.approx(1) and grads[0].abs().max() < 1e-9


def test_key_masks_are_judged_when_the_key_enters(build):
    made = spec(mask=both(CAUSAL, KEYS), tensors=(lengths,))
    reference = build(made, facts(made))
    q, k, v = torch.randn(1, 1, 5, 2), torch.randn(1, 1, 5, 2), torch.randn(1, 1, 5, 2)
    live = reference(q[:, :, :3], k[:, :, :3], v[:, :, :3], torch.tensor([0]))[3]
    assert live.flatten().tolist() == [True, True, False]
    after = reference(q[:, :, 3:], k, v, torch.tensor([3]), judged=live)[3]
    assert after.flatten().tolist() == [True, True, False, True, True]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("empty", ["B", "L", "S"])
def test_empty_tensors(build, name, empty):
    made, sides = CASES[name]
    q, k, v, given = inputs(made, DIMS | {empty: 0})
    o = call_torch(build(made, facts(made, *sides)), made, q, k, v, given)[0]
    same(o, meaning(made, q, k, v, given).o)


def test_16_bit_inputs_are_computed_in_float32(build):
    made = spec()
    q, k, v = (torch.randn(1, 2, 6, 4) for _ in range(3))
    half = [x.to(torch.bfloat16) for x in (q, k, v)]
    o, lse, _, _ = build(made, facts(made))(*half)
    want = meaning(made, *(x.double().numpy() for x in half)).o
    assert o.dtype == torch.bfloat16 and lse.dtype == torch.float32
    assert np.abs(o.double().numpy() - want).max() < 2**-8 * np.abs(want).max()


def test_the_text_reads_like_the_paper():
    made, sides = CASES["retention"]
    text = render_reference(lower_reference(made, facts(made, *sides)), [str(folder("templates"))])
    assert "weight = torch.where(mask, _dot(q, k) * torch.exp(decay), 0.0)" in text
    assert "mask = mask & (j <= i)" in text
    assert max(map(len, text.splitlines())) <= 120
