"""`python -m attnc.verify.targets MODULE JOB TARGET...`: every kernel compiled for GPUs that need
not be there, as JSON on standard output.

The interpreter accepts what no compiler does. Launches are caught on their way, with the arguments
that the module gives them, so what is compiled is what a user's call would compile. Nothing of the
numbers counts here: the kernels do not run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from attnc.verify.calls import Call, Way
from attnc.verify.checks import reason
from attnc.verify.material import material
from attnc.verify.probe import Job, job_from
from attnc.verify.run import load
from attnc.verify.verdict import Build


@dataclass(frozen=True)
class Launch:
    """A kernel and the arguments of one launch of it."""

    kernel: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    words: str  # the dtype and sizes of the call that it came from


@contextmanager
def recorded(words: str, launches: list[Launch]) -> Iterator[None]:
    """Every launch inside is noted down and not carried out."""
    from triton.runtime.jit import JITFunction  # type: ignore[import-untyped]

    original = JITFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        launches.append(Launch(self, args, kwargs, words))

    JITFunction.run = run
    try:
        yield
    finally:
        JITFunction.run = original


def launches_of(module: ModuleType, job: Job) -> tuple[list[Launch], list[Build]]:
    """Every launch that the module makes on the job's probes, and the calls that failed."""
    launches: list[Launch] = []
    failures: list[Build] = []
    # the module refuses tensors on the CPU to kernels that are not interpreted
    module.INTERPRETED = True  # type: ignore[attr-defined]
    for probe in job.probes:
        words = f"{probe.dtype} d_k={probe.d_k} d_v={probe.d_v}"
        for form in module.FORMS:
            try:
                m = material(module, job, probe)
                with recorded(words, launches):
                    Call(module, job, probe, Way(form, "triton")).results(m)
            except Exception as raised:
                failures.append(Build(form, "", words, False, reason(raised)))
    return launches, failures


def builds(launches: list[Launch], targets: list[str]) -> Iterator[Build]:
    """Each distinct launch compiled for each target."""
    import triton  # type: ignore[import-untyped]
    from triton.compiler import ASTSource, make_backend  # type: ignore[import-untyped]
    from triton.runtime.jit import create_function_from_signature

    seen: set[str] = set()
    for name in targets:
        target = _target(name)
        backend = make_backend(target)
        for launch in launches:
            fn = launch.kernel
            try:
                bind = create_function_from_signature(fn.signature, fn.params, backend)
                bound, special, extra = bind(*launch.args, **launch.kwargs, debug=False)
                options, signature, constants, attrs = fn._pack_args(
                    backend, {**launch.kwargs, "debug": False}, bound, special, extra
                )
                key = repr((name, fn.__name__, signature, constants, attrs, str(options)))
                if key in seen:
                    continue
                seen.add(key)
                source = ASTSource(fn, signature, constants, attrs)
                triton.compile(source, target=target, options=options.__dict__)
            except Exception as raised:
                yield Build(fn.__name__, name, launch.words, False, reason(raised))
            else:
                yield Build(fn.__name__, name, launch.words, True)


def _target(name: str) -> Any:
    from triton.backends.compiler import GPUTarget  # type: ignore[import-untyped]

    if name.startswith("sm_"):
        return GPUTarget("cuda", int(name.removeprefix("sm_")), 32)
    return GPUTarget("hip", name, 64)


def main(module_path: str, job_path: str, *targets: str) -> None:
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    job = job_from(json.loads(Path(job_path).read_text(encoding="utf-8")))
    found: list[Build] = []
    problem = ""
    try:
        module = load(Path(module_path))
        launches, found = launches_of(module, job)
        found += list(builds(launches, list(targets)))
    except Exception as raised:
        problem = reason(raised)
    json.dump({"builds": [asdict(b) for b in found], "problem": problem}, answer)
    answer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
