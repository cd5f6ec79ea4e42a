"""Kernels compiled for GPUs that are not there."""

from dataclasses import replace
from pathlib import Path

import pytest

from attnc.verify.probe import Job, Probe
from attnc.verify.verdict import Build, Effort, Verdict
from attnc.verify.verify import verify_job

pytest.importorskip("triton")

KERNELS = Path(__file__).with_name("kernel.py").read_text(encoding="utf-8")
JOB = Job(False, False, False, False, False, (Probe("one", 16, 16, 16, 16),))


def built(text: str, effort: Effort = Effort.QUICK) -> Verdict:
    return verify_job(text, JOB, effort)


def of(builds: tuple[Build, ...], kernel: str) -> list[Build]:
    return [b for b in builds if b.kernel == kernel]


def test_every_kernel_is_compiled_forward_and_backward() -> None:
    found = built(KERNELS)
    assert {b.kernel for b in found.builds} == {"copied", "product"}
    assert all(b.ok and b.target == "sm_90" for b in found.builds), found.builds
    # both types of number, which are two builds of the same kernel
    assert len(of(found.builds, "copied")) == 2


def test_full_compiles_for_three_targets() -> None:
    small = replace(JOB, probes=())
    found = verify_job(KERNELS, small, Effort.FULL)
    assert not found.builds and not found.ok  # nothing was compared
    found = built(KERNELS, Effort.FULL)
    assert {b.target for b in found.builds} == {"sm_80", "sm_90", "gfx942"}
    assert all(b.ok for b in found.builds)


def test_what_the_interpreter_accepts_and_a_compiler_does_not() -> None:
    # a product of 8 rows
    found = built(
        KERNELS.replace("TILE=16", "TILE=4").replace("new_empty(16, 16", "new_empty(4, 4")
    )
    wrong = of(found.builds, "product")
    assert wrong and not any(b.ok for b in wrong) and not found.ok
    assert all(b.message and "\n" not in b.message for b in wrong)
    assert all(b.ok for b in of(found.builds, "copied"))


def test_a_call_that_fails_before_its_launch_is_a_failed_build() -> None:
    found = built(KERNELS.replace("        o = torch.empty_like(v)", "        o = nothing(v)"))
    assert any(not b.ok and "nothing" in b.message for b in found.builds)
