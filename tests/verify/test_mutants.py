"""Generated kernels, each with one deliberate fault: the verification finds every one.

A case names the probe that finds it and a quantity that differs. The same modules without a fault
pass the same probes, so what is found is the fault.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import pytest

import attnc
from attnc.resources import folder
from attnc.verify.probe import as_data
from attnc.verify.probes import design
from attnc.verify.verdict import Effort

pytestmark = pytest.mark.skipif(not find_spec("triton"), reason="triton is not installed")

WINDOW = (
    "attention window {\n similarity = exp(q @ k)\n mask = window(40)\n align = lower_right\n"
    " normalizer = on\n}\n"
)


def example(name: str) -> str:
    return (folder("examples") / f"{name}.attn").read_text(encoding="utf-8")


SPECS = {
    "softmax": example("softmax_causal"),
    "linear": example("linear"),
    "retention": example("retention").replace("heads      = 8", "heads      = 2"),
    "window": WINDOW,
}


@dataclass(frozen=True)
class Mutant:
    spec: str
    form: str
    function: str  # of the module; the text is replaced inside it alone
    right: str
    wrong: str
    probe: str
    what: str


P, C, R = "parallel", "chunkwise", "recurrent"
FORWARD, QUERY, KEY = (f"_parallel_{part}_kernel" for part in ("forward", "query", "key"))
STATES, OUTPUTS, BACK = "_chunk_states_kernel", "_chunk_outputs_kernel", "_chunk_rows_kernel"

MUTANTS = {
    # masks and their edges
    "a key too many": Mutant("softmax", P, "_visible", "j <= i", "j <= i + 1", "ragged", "o"),
    "a window too short": Mutant("window", P, "_visible", "j", "(j - 1)", "mask at 40", "o"),
    "tiles skipped": Mutant("softmax", P, FORWARD, "first, past, BS", "first, past - 1, BS",
                            "past a tile", "o"),
    "rows skipped": Mutant("linear", P, KEY, "first, past, BL", "first, past - 1, BL",
                           "past a tile", "dv"),
    "the alignment": Mutant("softmax", P, FORWARD, "o_i + offset", "o_i", "more keys", "o"),
    "no keys beyond the end": Mutant("linear", P, FORWARD, "m_j = o_j < S", "m_j = o_j < S + 1",
                                     "past a tile", "o"),
    # padding and addresses
    "padding not cleared": Mutant("linear", C, "_within", "x, 0.0", "x, x", "ragged", "o"),
    "what lies beside a tensor": Mutant("softmax", P, "_tile", "m_rows[:, None] & m_col",
                                        "(m_rows | True)[:, None] & m_col", "ragged", "o"),
    "the key's head": Mutant("linear", P, FORWARD, "i_h // k_group * k_h", "i_h % k_group * k_h",
                             "more keys", "o"),
    "the value's head": Mutant("linear", C, OUTPUTS, "i_h // v_group * v_h", "i_h // v_group * k_h",
                               "past a tile", "o"),
    "the batch": Mutant("softmax", P, FORWARD, "i_b * v_b", "i_b * k_b", "ragged", "o"),
    "the query's rows": Mutant("retention", R, "_recurrent_kernel", "* q_l", "* k_s", "ragged",
                               "o"),
    # the running maximum
    "no maximum": Mutant("softmax", P, FORWARD, "tl.maximum(b_m, tl.max(b_e, 1))",
                         "tl.zeros_like(b_m)", "large scores", "o"),
    "sums of an older maximum": Mutant("softmax", P, FORWARD, "b_n * b_keep", "b_n", "past a tile",
                                       "o"),
    "empty rows": Mutant("softmax", P, FORWARD, 'b_top == float("-inf")', "b_top == 1e30",
                         "fewer keys", "o"),
    # states
    "a state that does not fade": Mutant("retention", C, STATES, "b_state * b_whole", "b_state",
                                         "three tiles", "o"),
    "a state that does not fade, token by token": Mutant(
        "retention", R, "_fade_state", "x + x * _tl_elu(f)", "x", "ragged", "o"),
    "pairs that do not fade": Mutant("retention", C, "_fade_pairs", "tl.exp", "1 + 0 * tl.exp",
                                     "ragged", "o"),
    "z forgets": Mutant("linear", C, STATES, "b_z * b_whole + tl.sum(b_k, 0)", "tl.sum(b_k, 0)",
                        "three tiles", "o"),
    "z starts at 0": Mutant("linear", R, "_recurrent_kernel",
                            "tl.load(p_z_start + i_bh * C + o_c, mask=m_c, other=0.0)",
                            "tl.zeros(o_c.shape, tl.float32)", "from a state", "state.z"),
    "the state before": Mutant("linear", C, OUTPUTS, "tl.minimum(i_t, chunks)", "0 * chunks",
                               "three tiles", "o"),
    "no state in the output": Mutant("retention", C, OUTPUTS, "b_o += _product(_operand(b_q",
                                     "b_o += 0 * _product(_operand(b_q", "past a tile", "o"),
    # gradients
    "the sum's gradient": Mutant("linear", P, QUERY, "+ b_row", "+ 0 * b_row", "ragged", "dq"),
    "the key's slope": Mutant("linear", P, KEY, "_phi_gradient(b_x, b_dk, h)", "b_dk", "ragged",
                              "dk"),
    "the gradient of n": Mutant("linear", C, BACK, "b_dp += b_dn", "b_dp += 0 * b_dn", "ragged",
                                "dk"),
    "what later chunks say of keys": Mutant("retention", C, BACK, "tl.minimum(i_t + 1, chunks)",
                                            "tl.minimum(i_t, chunks)", "past a tile", "dk"),
    "the state's gradient": Mutant("linear", C, "_chunk_state_gradients_kernel",
                                   "b_dz * b_whole + tl", "tl", "from a state, past a tile", "dz"),
    "values of one query head": Mutant("softmax", P, "_own_heads", ".sum(2)", "[:, :, 0]", "ragged",
                                       "dv"),
    # numbers
    "half precision in the sums": Mutant("retention", C, STATES, "b_state * b_whole +",
                                         "(b_state * b_whole).to(tl.float16).to(tl.float32) +",
                                         "from a state", "state.S"),
}  # fmt: skip


def mutate(text: str, mutant: Mutant) -> str:
    """The module with every occurrence in one function replaced."""
    start = text.index(f"\ndef {mutant.function}(")
    end = text.find("\n\n\n", start + 1)
    body = text[start:end]
    assert mutant.right in body, f"{mutant.function} has no {mutant.right!r} any more"
    head, colon, rest = body.partition("):\n") if mutant.function == "_visible" else ("", "", body)
    return text[:start] + head + colon + rest.replace(mutant.right, mutant.wrong) + text[end:]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What differs in each mutant, and under the name of a spec, form and probe what does without
    any fault: all in one process."""
    place = tmp_path_factory.mktemp("mutants")
    compiled = {name: attnc.compile(text, verify="none") for name, text in SPECS.items()}
    jobs = {name: design(c.ir, c.facts, Effort.QUICK) for name, c in compiled.items()}
    cases: dict[str, dict[str, object]] = {}
    for n, (name, m) in enumerate(MUTANTS.items()):
        job = replace(
            jobs[m.spec], probes=tuple(p for p in jobs[m.spec].probes if p.name == m.probe)
        )
        assert len(job.probes) == 1, f"{m.spec} has no probe {m.probe!r} any more"
        source = compiled[m.spec].source
        for key, file, text in (
            (f"{m.spec} {m.form} {m.probe}", f"{m.spec}.py", source),
            (name, f"mutant{n}.py", mutate(source, m)),
        ):
            (place / file).write_text(text, encoding="utf-8")
            cases[key] = {"file": file, "form": m.form, "job": as_data(job)}
    (place / "cases.json").write_text(json.dumps(list(cases.values())))
    subprocess.run(
        [sys.executable, "-m", "tests.verify.mutants", str(place)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        check=True,
    )
    return dict(zip(cases, json.loads((place / "found.json").read_text()), strict=True))


@pytest.mark.parametrize("name", MUTANTS)
def test_the_fault_is_found(name: str, found: dict[str, list[str]]) -> None:
    m = MUTANTS[name]
    assert not found[f"{m.spec} {m.form} {m.probe}"]
    assert m.what in found[name]
