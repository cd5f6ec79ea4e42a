"""The cases with known answers, where the checkout has them, and the specs that they use."""

import json
from pathlib import Path

import pytest

from attnc.ir.expr import Number, call
from attnc.ir.ops import Op
from attnc.ir.sizes import Size
from attnc.ir.spec import Align
from tests.building import CAUSAL, QK, H, J, K, Q, spec

FILE = Path(__file__).parents[2] / "shared" / "golden" / "cases.json"


def golden_cases():
    if FILE.is_file():
        return json.loads(FILE.read_text())
    reason = f"the cases are not beside this checkout ({FILE})"
    return [pytest.param({"name": "absent"}, marks=pytest.mark.skip(reason=reason))]


def _maps():
    from attnc.ir.expr import Dim

    scaled = call(Op.DIV, QK, call(Op.SQRT, Dim(Size.of("d_k"))))
    return {
        "exp(q @ k / sqrt(d_k))": call(Op.EXP, scaled),
        "exp(q @ k)": call(Op.EXP, QK),
        "relu(x)": lambda x: call(Op.RELU, x),
        "elu(x) + 1": lambda x: call(Op.ADD, call(Op.ELU, x), 1),
        "x": lambda x: x,
    }


def spec_of(text):
    """The spec of a case, read by a table that knows these clauses alone. Strict: others fail."""
    lines = [line.strip() for line in text.splitlines()[1:] if line.strip() not in ("", "}")]
    clauses = dict(tuple(part.strip() for part in line.split("=", 1)) for line in lines)
    similarity = clauses.pop("similarity")
    if similarity == "phi(q) @ phi(k)":
        phi = _maps()[clauses.pop("phi(x)")]
        made = call(Op.DOT, phi(Q), phi(K))
    else:
        made = _maps()[similarity]
    fields = {
        "similarity": made,
        "mask": {"causal": CAUSAL, "j < 2": call(Op.LT, J, 2)}[clauses.pop("mask")],
        "align": Align(clauses.pop("align")),
    }
    if clauses.pop("normalizer") == "off":
        fields["normalizer"] = None
    if "decay" in clauses:
        assert clauses.pop("decay") == "1 - 2^(-5 - h)"
        power = call(Op.POW, 2, call(Op.SUB, Number(-5), H))
        fields["decay"] = call(Op.SUB, 1, power)
    if "heads" in clauses:
        fields["heads"] = int(clauses.pop("heads"))
    assert not clauses, f"unknown clauses {clauses}"
    return spec(**fields)
