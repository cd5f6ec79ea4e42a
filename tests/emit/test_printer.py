"""Printed text, run, gives what the numpy meaning of the tree says."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, note, reject, settings
from hypothesis import strategies as st

from attnc.emit.dialects import TORCH, TRITON
from attnc.emit.helpers import needed
from attnc.emit.printer import Names, UnknownName, show, size_text
from attnc.ir.expr import Dim, IndexName, Number, Row, RowName, call
from attnc.ir.numeric import Env, evaluate
from attnc.ir.ops import Op
from attnc.ir.sizes import Size
from attnc.ir.types import TypeMismatch
from tests.building import D_K, QK, H, I, J, K, Q, declare, read

X, Y = declare("x", "L", "S"), declare("y", "H", "L", "S")
NUMBERS = [read(X, I, J), read(Y, H, I, J)]
NAMES = Names(
    indices={IndexName.QUERY: "i", IndexName.KEY: "j", IndexName.HEAD: "h"},
    rows={RowName.Q: "q", RowName.K: "k"},
    tensors={"x": "x", "y": "y"},
    places={(IndexName.QUERY, "L"): "i", (IndexName.KEY, "S"): "j"},
)

_random = np.random.default_rng(7)
VALUES = {
    "x": _random.normal(size=(3, 4)),
    "y": _random.normal(size=(2, 3, 4)),
    "q": _random.normal(size=(2, 3, 1, 4)),
    "k": _random.normal(size=(2, 1, 4, 4)),
    "i": np.arange(3)[:, None],
    "j": np.arange(4),
    "h": np.arange(2)[:, None, None],
}
ENV = Env(
    dims={"d_k": 4, "L": 3, "S": 4, "H": 2},
    indices={
        IndexName.QUERY: VALUES["i"],
        IndexName.KEY: VALUES["j"],
        IndexName.HEAD: VALUES["h"],
    },
    rows={RowName.Q: VALUES["q"], RowName.K: VALUES["k"]},
    tensors={"x": VALUES["x"], "y": VALUES["y"]},
    row=VALUES["i"],
)


def run_torch(text):
    space = {"torch": torch, "math": math, "dtype": torch.float64, "device": "cpu", "d_k": 4}
    space |= {name: torch.from_numpy(value) for name, value in VALUES.items()}
    helpers = needed("torch/math.py", text)
    exec(helpers, space)
    result = eval(text, space)
    return result.numpy() if isinstance(result, torch.Tensor) else np.asarray(result)


ONE = [Op.NEG, Op.EXP, Op.ABS, Op.SIN, Op.COS, Op.TANH, Op.SIGMOID, Op.LOG_SIGMOID, Op.RELU,
       Op.ELU, Op.SILU, Op.GELU, Op.SOFTPLUS, Op.ERF, Op.LOG, Op.LOG2, Op.SQRT,
       Op.SUM, Op.MEAN, Op.AMAX, Op.NORM, Op.SOFTMAX, Op.SIZE]  # fmt: skip
TWO = [Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MIN, Op.MAX, Op.DOT, Op.OUTER, Op.CONCAT, Op.FLOORDIV,
       Op.MOD, Op.ROTATE]  # fmt: skip
COMPARE = [Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE]


LEAVES = [*NUMBERS, Q, K, QK, I, J, H, Dim(D_K), Number(2), Number(-3), Number(0.7)]


def _truth(draw, depth):
    kind = draw(st.integers(0, 4 if depth else 2))
    if kind < 3:
        return call(draw(st.sampled_from(COMPARE)), _tree(draw, depth - 1), _tree(draw, depth - 1))
    if kind == 3:
        return call(Op.NOT, _truth(draw, depth - 1))
    op = draw(st.sampled_from([Op.AND, Op.OR]))
    return call(op, _truth(draw, depth - 1), _truth(draw, depth - 1))


def _tree(draw, depth):
    kind = draw(st.integers(0, 9)) if depth > 0 else 0
    if kind < 2:
        return draw(st.sampled_from(LEAVES))
    x = _tree(draw, depth - 1)
    if kind < 5:
        return call(draw(st.sampled_from(ONE)), x)
    if kind == 9:
        n = Number(draw(st.integers(0, 3)))
        return call(draw(st.sampled_from([Op.POW, Op.ROLL])), x, n)
    y = _tree(draw, depth - 1)
    if kind == 8:
        condition = _truth(draw, depth - 2)
        return draw(st.sampled_from([call(Op.WHERE, condition, x, y), call(Op.CLAMP, x, y, 0.5)]))
    return call(draw(st.sampled_from(TWO)), x, y)


@st.composite
def trees(draw):
    try:
        return _tree(draw, 4)
    except TypeMismatch:
        reject()


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees())
def test_torch_text_means_what_the_tree_means(expr):
    text = show(expr, TORCH, NAMES)
    note(text)
    want = evaluate(expr, ENV)
    try:
        got = run_torch(text)
    except (OverflowError, ZeroDivisionError, ValueError, RuntimeError) as error:
        # Python numbers and whole tensors raise where real ones give inf or nan
        expected = isinstance(error, OverflowError | ZeroDivisionError)
        if not (expected or "ZeroDivisionError" in str(error) or "math domain" in str(error)):
            raise
        return
    finite = np.isfinite(want) & (np.abs(np.asarray(want, float)) < 1e9)
    shape = np.broadcast_shapes(np.shape(got), np.shape(want))
    got, want = np.broadcast_to(got, shape), np.broadcast_to(want, shape)
    finite = np.broadcast_to(finite, shape)
    # a floor or a comparison may turn the last bit into one
    close = np.isclose(got, want, rtol=1e-9, atol=1e-9) | ~finite
    steps = any(o in text for o in ("floor", "mod", "<", ">", "==", "!=", "sin", "cos"))
    assert close.all() or (steps and close.mean() > 0.4), text


@pytest.mark.parametrize(
    ("expr", "torch_text", "triton_text"),
    [
        (
            call(Op.SUB, 1, call(Op.POW, 2, call(Op.SUB, -5, H))),
            "1 - 2 ** (-5 - h).to(dtype)",
            "1 - tl.exp2(tl.cast(-5 - h, tl.float32))",
        ),
        (
            call(Op.AND, call(Op.LE, J, I), call(Op.NOT, call(Op.LT, call(Op.SUB, I, 3), J))),
            "(j <= i) & ~(i - 3 < j)",
            "(j <= i) & ~(i - 3 < j)",
        ),
        (call(Op.SUB, I, call(Op.SUB, J, H)), "i - (j - h)", "i - (j - h)"),
        (call(Op.NEG, call(Op.POW, I, 2)), "-i ** 2", "-_tl_powi(i, 2)"),
        (call(Op.POW, call(Op.NEG, I), 2), "(-i) ** 2", "_tl_powi(-i, 2)"),
        (call(Op.FLOOR, call(Op.DIV, I, 4)), "i // 4", "_tl_floordiv(i, 4)"),
        (call(Op.MOD, call(Op.NEG, I), 3), "-i % 3", "_tl_mod(-i, 3)"),
        (call(Op.MUL, Number(math.inf), I), "math.inf * i.to(dtype)",
         'float("inf") * tl.cast(i, tl.float32)'),
    ],
)  # fmt: skip
def test_text(expr, torch_text, triton_text):
    assert show(expr, TORCH, NAMES) == torch_text
    assert show(expr, TRITON, NAMES) == triton_text


def test_unit_and_scale_read_as_written():
    unit = call(Op.DIV, Q, call(Op.NORM, Q))
    assert show(unit, TORCH, NAMES) == "_unit(q)"
    score = call(Op.EXP, call(Op.DIV, QK, call(Op.SQRT, Dim(D_K))))
    assert show(score, TORCH, NAMES) == "torch.exp(_dot(q, k) / math.sqrt(d_k))"


def test_atoms_stand_for_whole_subexpressions():
    text = show(call(Op.EXP, QK), TRITON, Names(atoms={QK: "b_s"}))
    assert text == "tl.exp(b_s)"


def test_a_leaf_without_a_name_is_an_error():
    with pytest.raises(UnknownName):
        show(Row(RowName.V, D_K), TORCH, NAMES)


def test_sizes():
    d, m = Size.of("d_k"), Size.of("m")
    assert size_text(d * d + d + Size.of(1)) == "d_k * d_k + d_k + 1"
    triangle = D_K * (D_K + Size.of(1)) * Size.of(3)
    assert eval(size_text(triangle), {"d_k": 4}) == 60
    assert eval(size_text((d * m) // Size.of(3)), {"d_k": 4, "m": 5}) == 6


def test_the_unchosen_side_sends_no_gradient():
    guarded = call(Op.WHERE, call(Op.GT, NUMBERS[0], 0), call(Op.SQRT, NUMBERS[0]), 0)
    text = show(guarded, TORCH, NAMES)
    space = {"torch": torch, "math": math, "i": torch.arange(3)[:, None], "j": torch.arange(4)}
    space["x"] = x = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    exec(needed("torch/math.py", text), space)
    eval(text, space).sum().backward()
    assert (x.grad == 0).all()


def test_unit_of_the_zero_row_is_zero_with_gradient_zero():
    space = {"torch": torch, "q": torch.zeros(2, 3, requires_grad=True)}
    exec(needed("torch/math.py", "_unit(q)"), space)
    made = eval("_unit(q)", space)
    made.sum().backward()
    assert (made == 0).all() and (space["q"].grad == 0).all()
    norm = torch.linalg.vector_norm(space["q"], dim=-1)
    assert torch.isfinite(torch.autograd.grad(norm.sum(), space["q"])[0]).all()


# --- Triton: one kernel with every elementwise operation, interpreted and compiled

x, y, n, m = (declare(name) for name in "xynm")
RX, RY = (read(t) for t in (x, y))
RN, RM = I, J
KERNEL_NAMES = Names(
    indices={IndexName.QUERY: "n", IndexName.KEY: "m"}, tensors={"x": "x", "y": "y"}
)
SAFE = call(Op.ADD, call(Op.ABS, RX), 0.1)
KERNEL_CASES = {
    **{op.name: call(op, RX) for op in Op if op.info.arity == 1 and op.info.derivatives
       and op not in (Op.LOG, Op.LOG2, Op.SQRT, Op.FLOOR)},
    **{op.name: call(op, SAFE) for op in (Op.LOG, Op.LOG2, Op.SQRT)},
    **{op.name: call(op, RX, RY) for op in (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MIN, Op.MAX)},
    **{op.name: call(Op.WHERE, call(op, RX, RY), RX, 0.5) for op in COMPARE},
    "AND": call(Op.WHERE, call(Op.AND, call(Op.LT, RX, RY), call(Op.LT, RN, RM)), 1, 0.25),
    "OR": call(Op.WHERE, call(Op.OR, call(Op.LT, RX, RY), call(Op.LT, RN, RM)), 1, 0.25),
    "NOT": call(Op.WHERE, call(Op.NOT, call(Op.LT, RX, RY)), RY, RX),
    "CLAMP": call(Op.CLAMP, RX, -0.5, RY),
    "POW": call(Op.POW, SAFE, RY),
    "POW_NEGATIVE": call(Op.POW, RX, call(Op.MUL, 1.0, RM)),
    "POW_3": call(Op.POW, RX, 3),
    "POW_2_OF": call(Op.POW, 2, RX),
    "POW_INT": call(Op.POW, RN, 2),
    "FLOOR": call(Op.FLOOR, call(Op.MUL, RX, 3)),
    "FLOORDIV": call(Op.FLOORDIV, RX, RY),
    "MOD": call(Op.MOD, RX, SAFE),
    "FLOORDIV_INT": call(Op.FLOORDIV, RN, RM),
    "MOD_INT": call(Op.MOD, RN, RM),
    "FLOOR_OF_QUOTIENT": call(Op.FLOOR, call(Op.DIV, RN, RM)),
    "INT_DIV": call(Op.DIV, RN, RM),
    "INT_EXP": call(Op.EXP, call(Op.MUL, RN, 0.125)),
    "MIN_INT": call(Op.MIN, RN, RM),
    "CONSTANT_FUNCTION": call(Op.MUL, RX, call(Op.SIGMOID, call(Op.SQRT, 2))),
}  # fmt: skip
# exact up to the rounding of float32; powers multiply the rounding of a logarithm
TOLERANCE = {"POW": 2e-5, "POW_NEGATIVE": 2e-5, "GELU": 3e-6}
SIZE = 256


def kernel_file(path):
    lines = [f"    tl.store(out + {c} * SIZE + at, ({show(e, TRITON, KERNEL_NAMES)}) * one)"
             for c, e in enumerate(KERNEL_CASES.values())]  # fmt: skip
    body = "\n".join(lines)
    path.write_text(f"""import triton
import triton.language as tl


{needed("triton/math.py", *(line.strip() for line in lines))}


@triton.jit
def every(px, py, pn, pm, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    x, y, n, m = tl.load(px + at), tl.load(py + at), tl.load(pn + at), tl.load(pm + at)
    one = 1.0
{body}
""")


INTERPRET = """
import numpy as np, torch, kernels
data = np.load("in.npz")
out = torch.zeros(int(data["cases"]), 256)
kernels.every[(1,)](*(torch.from_numpy(data[n]) for n in "xynm"), out, SIZE=256)
np.save("out.npy", out.numpy())
"""
COMPILE = """
import sys, kernels, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
targets = {"sm_90": GPUTarget("cuda", 90, 32), "gfx942": GPUTarget("hip", "gfx942", 64)}
signature = dict(px="*fp32", py="*fp32", pn="*i32", pm="*i32", out="*fp32", SIZE="constexpr")
source = ASTSource(kernels.every, signature, {"SIZE": 256})
made = triton.compile(source, target=targets[sys.argv[1]], options={"enable_fp_fusion": False})
assert "f64" not in made.asm["ttir"], "something was promoted to float64"
"""


def _run(tmp_path, script, *arguments, **environment):
    kernel_file(tmp_path / "kernels.py")
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | environment
    env["TRITON_CACHE_DIR"] = str(tmp_path / "cache")
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=tmp_path, env=env,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


def _inputs():
    random = np.random.default_rng(3)
    small = np.concatenate([10.0 ** -np.arange(1, 9), -(10.0 ** -np.arange(1, 9)), [0, 0.5, -0.5]])
    large = np.array([30, -30, 80, -80, 9.5, -9.5, 17, -17])
    xs = np.concatenate([small, large, random.normal(size=SIZE - small.size - large.size) * 2])
    ys = random.normal(size=SIZE)
    ns = random.integers(-9, 10, SIZE)
    ms = random.choice([-3, -2, -1, 1, 2, 3], SIZE)
    return xs.astype(np.float32), ys.astype(np.float32), ns.astype(np.int32), ms.astype(np.int32)


def test_triton_text_in_the_interpreter(tmp_path):
    pytest.importorskip("triton")
    xs, ys, ns, ms = _inputs()
    np.savez(tmp_path / "in.npz", x=xs, y=ys, n=ns, m=ms, cases=len(KERNEL_CASES))
    _run(tmp_path, INTERPRET, TRITON_INTERPRET="1")
    out = np.load(tmp_path / "out.npy").astype(np.float64)
    env = Env(
        {},
        {IndexName.QUERY: ns.astype(np.int64), IndexName.KEY: ms.astype(np.int64)},
        tensors={"x": xs.astype(np.float64), "y": ys.astype(np.float64)},
    )
    for got, (name, expr) in zip(out, KERNEL_CASES.items(), strict=True):
        want = np.broadcast_to(evaluate(expr, env), got.shape)
        limit = TOLERANCE.get(name, 4e-7)
        seen = np.isfinite(want.astype(np.float32)) & (np.abs(want) > 1e-30)
        if name in ("MOD", "FLOORDIV"):
            seen &= np.abs(xs) < 20
        relative = np.abs(got - want) / np.maximum(np.abs(want), 1e-30)
        if name in (
            "SIN",
            "LOG",
            "LOG2",
            "COS",
            "MOD",
            "GELU",
            "SILU",
            "EXP",
            "POW_2_OF",
            "SIGMOID",
            "SUB",
            "ADD",
        ):
            # absolute where the condition, not the text, sets the error
            relative = np.abs(got - want) / np.maximum(np.abs(want), 1)
        assert relative[seen].max() <= limit, (name, xs[seen][relative[seen].argmax()])
        assert np.isnan(got[np.isnan(want)]).all(), name


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_triton_text_compiles(tmp_path, target):
    pytest.importorskip("triton")
    _run(tmp_path, COMPILE, target)
