"""`python -m attnc.verify.run MODULE JOB`: a module's comparisons, as JSON on standard output.

A process of its own, since TRITON_INTERPRET is read when the module's kernels are defined, and a
kernel that goes wrong may take its process with it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType

import torch

from attnc.verify.checks import check, reason
from attnc.verify.probe import ACCELERATOR, job_from


def load(path: Path) -> ModuleType:
    """The module in a file, under a name of its own."""
    name = f"attnc_subject_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def main(module_path: str, job_path: str) -> None:
    # what a module or a compiler prints must not come between the lines of the answer
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    # what is never written is NaN, so that it shows
    torch.use_deterministic_algorithms(True, warn_only=True)
    job = job_from(json.loads(Path(job_path).read_text(encoding="utf-8")))
    comparisons: list[dict[str, object]] = []
    problem = ""
    try:
        if job.device == ACCELERATOR and not torch.cuda.is_available():
            job = replace(job, probes=())
        module = load(Path(module_path))
        comparisons = [asdict(c) for c in check(module, job)]
        if job.device == ACCELERATOR:
            comparisons = [c | {"backend": f"{c['backend']} on the GPU"} for c in comparisons]
    except Exception as raised:
        problem = reason(raised)
    json.dump({"comparisons": comparisons, "problem": problem}, answer)
    answer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
