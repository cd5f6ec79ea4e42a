"""Modules for tests of the public functions: the kernels are the reference here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import torch

from attnc.emit.face import IMPORTS, render_face
from attnc.emit.reference import render_reference
from attnc.ir.face import Memory
from attnc.ir.sizes import Size
from attnc.ir.types import Kind
from attnc.passes.lower_face import lower_face
from attnc.pipeline import check
from attnc.resources import folder
from attnc.source import Source

CLAUSES = "mask = causal\nalign = lower_right\n"
LINEAR = CLAUSES + "phi(x) = elu(x) + 1\nsimilarity = phi(q) @ phi(k)\nnormalizer = on\n"
SOFTMAX = CLAUSES + "similarity = exp(q @ k / sqrt(d_k))\nnormalizer = on\n"
DELTA = CLAUSES + "similarity = q @ k\nkey = unit(k)\nnormalizer = off\n"

SPECS = {
    "linear": LINEAR,
    "retention": CLAUSES + "heads = 4\nsimilarity = q @ k\nnormalizer = off\n"
    "decay = 1 - 2^(-5 - h)\n",
    "linear_upper_left": LINEAR.replace("lower_right", "upper_left"),
    "linear_padded": LINEAR.replace("causal", "causal and keys(len) and same(doc)")
    + "input len : int [B]\ninput doc : int [B, S]\ninput g : [B, H, S]\ndecay = sigmoid(g)\n",
    "linear_documents_of_groups": LINEAR.replace("causal", "causal and same(doc) and same(all)")
    + "input doc : int [G, B, S]\ninput all : int [S]\n",
    "linear_blhd": LINEAR + "layout = blhd\nkv_heads = 2\ninput g : [B, S, G]\ndecay = exp(-exp(g))\n",
    "taylor": CLAUSES + "similarity = taylor2(q) @ taylor2(k)\nnormalizer = on\n",
    "favor": CLAUSES + "similarity = favor(q, W) @ favor(k, W)\nnormalizer = on\n"
    "buffer W : [m, d_k]\n",
    "read_before": LINEAR.replace("normalizer = on", "normalizer = off") + "read = before\n"
    "input g : [B, H, S, d_k]\ndecay = sigmoid(g)\n",
    "delta": DELTA + "update = delta(sigmoid(beta))\ninput beta, g : [B, H, S]\ndecay = exp(-exp(g))\n",
    "value_of_two": LINEAR + "value = concat(v, 1)\n",
    "softmax": SOFTMAX,
    "softmax_upper_left": SOFTMAX.replace("lower_right", "upper_left"),
    "softmax_padded": SOFTMAX.replace("causal", "causal and keys(len)") + "input len : int [B]\n",
    "softmax_documents": SOFTMAX.replace("causal", "causal and same(doc)")
    + "input doc : int [B, S]\ninput f : [B, H, S]\ndecay = sigmoid(f)\n",
    "window_padded": SOFTMAX.replace("causal", "(window(3) or prefix(1)) and causal and keys(len)")
    .replace("lower_right", "upper_left") + "input len : int [B, G]\n",
    "softmax_bias": SOFTMAX.replace("sqrt(d_k)", "sqrt(d_k) + bias[b, h, i, j] + slope")
    + "input bias : [B, H, L, S]\nparam slope : [H] = 0.5\ninput gate : [B, L, d_v]\n"
    "output = o * sigmoid(gate)\n",
    "softmax_rope": SOFTMAX + "query = rope(q, i)\nkey = rope(k, j)\nlayout = blhd\nkv_heads = 2\n"
    "v_heads = 4\nheads = 4\nd_k = 6\nd_v = 5\n",
    "table": SOFTMAX.replace("q @ k", "q @ k + rel[h, i - j + S - 1]") + "input rel : [H, 2 * S - 1]\n",
    "everything": LINEAR.replace("causal", "keys(len)") + "input len : int [B]\n",
    "softmax_of_all": SOFTMAX.replace("mask = causal", "mask = none"),
}  # fmt: skip

SUMS = """
def _compute({arguments}, *, start, past, form, backend):
    o, lse, state, _ = _reference({arguments}, start=start, past=past)
    return o, lse, ({state})
"""
CACHE = """
def _compute({arguments}, *, start, past, form, backend{judged}):
    assert past is None
    o, lse, _, _ = _reference({arguments}{options})
    return o, lse, None
"""


def build(text: str, path: Path, kernels: bool = True) -> ModuleType:
    """The module of a spec's clauses; its kernels are its reference."""
    checked = check(Source("a.attn", f"attention made {{\n{text}}}\n"))
    assert checked.spec is not None and checked.facts is not None, checked.diagnostics
    spec = checked.spec
    plan = lower_face(spec, checked.facts, kernels)
    templates = [str(folder("templates"))]
    arguments = ", ".join(["q", "k", "v", *(f"{t.name}_" for t in spec.tensors)])
    if plan.memory is Memory.SUMS:
        state = "state[0], None" if spec.normalizer is None else "state"
        compute = SUMS.format(arguments=arguments, state=state)
    else:
        judged = ", judged" if plan.live else ""
        options = ", first=start" if plan.reference.placed else ""
        options += ", judged=judged" if plan.live else ""
        compute = CACHE.format(arguments=arguments, judged=judged, options=options)
    forms = tuple(f.value for f in checked.facts.form_names)
    parts = [
        "import math\nimport os\n" + "\n".join(f"import {name}" for name in IMPORTS),
        'import torch\n\ntriton, INTERPRETED = None, os.environ.get("TRITON_INTERPRET") == "1"',
        f"FORMS = {forms!r}",
        render_reference(plan.reference, templates),
        compute,
        render_face(plan, templates),
    ]
    path.write_text("\n\n".join(parts))
    name = f"made_{abs(hash((text, str(path))))}"
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses look their module up
    found.loader.exec_module(module)
    module.plan, module.spec = plan, spec
    return module


def sizes(module: ModuleType, **others: int) -> dict[str, int]:
    """Sizes that fit what the spec fixes."""
    spec = module.spec
    n = {"B": 2, "H": 4, "G": spec.kv_heads or 2, "L": 6, "S": 6, "m": 3}
    n |= {"d_k": spec.d_k or 4, "d_v": spec.d_v or 3, "Gv": spec.v_heads or spec.kv_heads or 2}
    return n | others


def rows(module: ModuleType, n: dict[str, int], dtype: torch.dtype = torch.float64):
    """q, k, v in the module's layout."""
    shapes = [(n["H"], n["L"], n["d_k"]), (n["G"], n["S"], n["d_k"]), (n["Gv"], n["S"], n["d_v"])]
    made = [torch.randn(n["B"], *shape, dtype=dtype) for shape in shapes]
    return made if row_axis(module) == 2 else [x.transpose(1, 2) for x in made]


def row_axis(module: ModuleType) -> int:
    return 2 if module.spec.layout.value == "bhld" else 1


def tensors(module: ModuleType, n: dict[str, int], dtype: torch.dtype = torch.float64):
    """The declared tensors by name."""
    made = {}
    for decl in module.spec.tensors:
        shape = [max(size.evaluate(n), 0) for size in decl.dims]
        if decl.kind is Kind.INT and decl.axis_of("S") is not None:
            made[decl.name] = torch.randint(0, 2, shape).cumsum(decl.axis_of("S"))
        elif decl.kind is Kind.INT:
            made[decl.name] = torch.randint(n["S"] // 2, max(n["S"], 1), shape)
        else:
            made[decl.name] = torch.randn(shape, dtype=dtype)
    return made


def part(module: ModuleType, q, k, v, given, at: slice):
    """What a call gets of the whole: rows and keys of `at`, and all keys so far beside a row."""
    axis, cut = row_axis(module), {}
    total = k.shape[axis]
    for decl in module.spec.tensors:
        x, keys, of_rows = given[decl.name], decl.axis_of("S"), decl.axis_of("L")
        if of_rows is not None:
            x = x.narrow(of_rows, at.start, at.stop - at.start)
        if keys is not None:
            begin = 0 if of_rows is not None else at.start
            x = x.narrow(keys, begin, at.stop - begin)
        if decl.name == "rel":  # reads i - j + S - 1
            x = x[:, total - at.stop : total + at.stop - 1]
        cut[decl.name] = x
    return [x.narrow(axis, at.start, at.stop - at.start) for x in (q, k, v)], cut


def size_of(module: ModuleType, name: str, n: dict[str, int]) -> int:
    size: Size = getattr(module.plan, name)
    return size.evaluate(n)
