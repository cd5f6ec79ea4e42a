"""A module by hand, right and with one fault at a time: the verdict names the line."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attnc.verify.checks import check
from attnc.verify.probes import design
from attnc.verify.run import load
from attnc.verify.verdict import Effort, Verdict
from attnc.verify.verify import verify
from tests.verify.test_probes import example

SUBJECT = Path(__file__).with_name("subject.py").read_text(encoding="utf-8")

# the line, what it is replaced by, and a quantity and a probe that must fail
FAULTS = {
    "a key too many": ("tril(S - L)", "tril(S - L + 1)", "parallel", "o", "ragged"),
    "alignment": (".tril(S - L)", ".tril(0)", "parallel", "o", "more keys"),
    "a row of a chunk": ("(a @ b.mT).tril()", "(a @ b.mT).tril(-1)", "chunkwise", "o", "ragged"),
    "no state": ("weight @ c + a @ state.S", "weight @ c", "chunkwise", "o", "three tiles"),
    "z stands still": (
        "State(b.mT @ c, b.sum(2), end - first)",
        "State(b.mT @ c, 0 * b.sum(2), end - first)",
        "chunkwise",
        "state.z",
        "from a state",
    ),
    "the past's z": (" + phi @ past.z[..., None]", "", "parallel", "dz", "from a state"),
    "an input written": ("    run = _para", "    q.mul_(2)\n    run = _para", "parallel",
                         "call", "ragged"),
    "a value written": ("    run = _para", "    v.data.mul_(2)\n    run = _para", "parallel",
                        "inputs unchanged", "ragged"),
    "chance": (
        "    o, n, state = run(phi, psi, x, past)\n",
        "    o, n, state = run(phi * (1 + 1e-6 * torch.rand(())), psi, x, past)\n",
        "parallel",
        "repeated",
        "each alone",
    ),
    "a slope": ("phi, psi, x = _prepared(q, k, v, torch.float32)",
                "phi, psi, x = _prepared(q, k.detach(), v, torch.float32)",
                "parallel", "dk", "ragged"),
    "empty rows": ("safe = torch.where(n == 0, 1, n)\n    return torch.where(n == 0, 0, o / safe)",
                   "return o / n", "parallel", "o", "fewer keys"),
    "length": ("new.length + old.length", "new.length", "chunkwise", "length", "several calls"),
    "rounding": ("o, n, state = run(phi, psi, x, past)",
                 "o, n, state = run(phi.bfloat16().float(), psi, x, past)",
                 "chunkwise", "o", "ragged"),
}  # fmt: skip


def verdict(text: str) -> Verdict:
    spec, facts = example("linear")
    return verify(text, spec, facts, Effort.QUICK)


def verdict_here(text: str, folder: Path) -> Verdict:
    """The comparisons alone, in this process: faster, where what is tested is what they find."""
    path = folder / "faulty.py"
    path.write_text(text, encoding="utf-8")
    job = design(*example("linear"), Effort.QUICK)
    return Verdict(tuple(check(load(path), job)))


def failures(found: Verdict) -> set[tuple[str, str, str]]:
    return {(c.form, c.what, c.probe) for c in found.comparisons if not c.ok}


def test_a_right_module_passes() -> None:
    found = verdict(SUBJECT)
    assert found.ok, [row for row in found.rows if not row.ok]
    assert {row.form for row in found.rows} == {"parallel", "chunkwise", "step"}
    quantities = {row.what for row in found.rows}
    assert quantities >= {"o", "dq", "dk", "dv", "dS", "dz", "state.S", "state.z", "repeated"}
    assert quantities >= {"inputs unchanged", "o in pieces", "dq alone"}
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["ok"] is True


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_where_it_is(fault: str, tmp_path: Path) -> None:
    right, wrong, form, what, probe = FAULTS[fault]
    assert SUBJECT.count(right) == 1
    found = verdict_here(SUBJECT.replace(right, wrong), tmp_path)
    assert not found.ok and not found.problem
    assert (form, what, probe) in failures(found)
    assert "failed" in found.summary
    json.dumps(found.as_dict(), allow_nan=False)


def test_a_module_that_raises_fails_with_the_reason(tmp_path: Path) -> None:
    raises = "    raise RuntimeError('no such kernel')\n    run = _para"
    found = verdict_here(SUBJECT.replace("    run = _para", raises), tmp_path)
    assert {c.note for c in found.comparisons if c.what == "call"} == {
        "RuntimeError: no such kernel"
    }
    assert not found.ok


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("import torch.no_such_part\n", "no_such_part"),
        ("import os; os._exit(3)\n", "exit status 3"),
        ("import sys; sys.exit('gone')\n", "gone"),
        ("print('noise on standard output')\n", ""),
    ],
)
def test_a_process_that_dies_is_a_problem_in_one_line(line: str, words: str) -> None:
    found = verdict(SUBJECT + line)
    assert words in found.problem and "\n" not in found.problem
    assert found.ok is not bool(words)


def test_ctrl_c_ends_it_at_once_and_leaves_no_process() -> None:
    script = (
        "from tests.verify.test_verify import SUBJECT, verdict\n"
        "print('started', flush=True)\n"
        "verdict(SUBJECT + 'import time; time.sleep(60)\\n')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None and process.stdout.readline() == b"started\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    # its pipe closes only when the children that inherited it are gone too
    process.communicate(timeout=20)
    assert time.monotonic() - began < 20 and process.returncode != 0
