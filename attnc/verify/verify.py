"""A module's text -> a verdict. The module runs in processes of its own; nothing slow is imported
here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attnc.ir.facts import Facts
from attnc.ir.spec import AttnSpec
from attnc.verify.probe import ACCELERATOR, Job, as_data
from attnc.verify.probes import build_job, design, with_tensors
from attnc.verify.verdict import Effort, Verdict, build_from, comparison_from

TARGETS = {Effort.QUICK: ("sm_90",), Effort.FULL: ("sm_80", "sm_90", "gfx942")}
MOST_PROCESSES = 4
PATIENCE = {Effort.QUICK: 300, Effort.FULL: 3600}  # seconds


def verify(
    text: str, spec: AttnSpec, facts: Facts, effort: Effort, here_too: bool = False
) -> Verdict:
    """Compare a module with its own reference on the probes of its spec, and build its kernels.

    With `here_too` on this machine's GPU as well, where there is one.
    """
    if effort is Effort.NONE:
        raise ValueError("there is nothing to verify")
    job = design(spec, facts, effort)
    built = with_tensors(build_job(job, effort), spec, facts)
    return verify_job(text, job, effort, here_too, built)


def verify_job(
    text: str, job: Job, effort: Effort, here_too: bool = False, built: Job | None = None
) -> Verdict:
    """The same, on given probes; the kernels of the calls of `built` are compiled."""
    skipped = () if find_spec("triton") else ("triton is not installed: torch backend alone",)
    with tempfile.TemporaryDirectory(prefix="attnc_") as name:
        folder = Path(name)
        (folder / "subject.py").write_text(text, encoding="utf-8")
        children = [_Child(folder, "run", part, {"TRITON_INTERPRET": "1"}) for part in _parts(job)]
        if not skipped:
            calls = built or build_job(job, effort)
            children.append(_Child(folder, "targets", calls, {}, TARGETS[effort]))
        if here_too:
            children.append(_Child(folder, "run", replace(job, device=ACCELERATOR), {}))
        try:
            answers = [child.answer(PATIENCE[effort]) for child in children]
        finally:
            for child in children:
                child.stop()
    problems = [str(a["problem"]) for a in answers if a["problem"]]
    return Verdict(
        effort=effort,
        comparisons=tuple(comparison_from(c) for a in answers for c in a.get("comparisons", ())),
        builds=tuple(build_from(b) for a in answers for b in a.get("builds", ())),
        problem="; ".join(problems),
        skipped=skipped,
    )


def _parts(job: Job) -> list[Job]:
    """The job for as many processes as there are processors, up to what is worth their start."""
    count = min(os.cpu_count() or 1, MOST_PROCESSES)
    return [replace(job, probes=job.probes[n::count]) for n in range(count)]


class _Child:
    """A process that looks at the module in `folder`."""

    def __init__(
        self,
        folder: Path,
        part: str,
        job: Job,
        environment: Mapping[str, str],
        words: tuple[str, ...] = (),
    ):
        self.part = part
        handle, name = tempfile.mkstemp(".json", part, folder)
        os.close(handle)
        task = Path(name)
        task.write_text(json.dumps(as_data(job)), encoding="utf-8")
        # the folder of the call may hold a torch.py or a retention.py: it must not be imported
        inherited = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        settings = {
            "PYTHONPATH": os.pathsep.join(p for p in paths if p),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"attnc.verify.{part}", str(folder / "subject.py"), str(task),
             *words],
            cwd=folder,
            env={**inherited, **settings, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def answer(self, patience: float) -> dict[str, Any]:
        """What the process says; where it says nothing, why."""
        try:
            out, err = self.process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            return {"problem": f"no end after {patience:.0f} s ({self.part})"}
        try:
            found: dict[str, Any] = json.loads(out)
            return found
        except ValueError:
            lines = [line.strip() for line in err.splitlines() if line.strip()]
            last = lines[-1] if lines else f"exit status {self.process.returncode}"
            return {"problem": f"the module's process ended without an answer ({last[:300]})"}

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
