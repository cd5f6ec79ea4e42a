"""Verify every example on this machine's GPU, and time it against scaled_dot_product_attention.

    python benchmarks/gpu.py [--quick] [--examples NAME ...]

Writes one JSON record and one Markdown table to benchmarks/results/. Timings are medians; the
candidates take turns within one run, so that they meet the same clocks. Without a GPU it says so.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import attnc
from attnc.pipeline import verify_module
from attnc.verify.verdict import Effort

ROOT = Path(__file__).resolve().parent.parent
LENGTHS = (1024, 4096, 16384)
SDPA = "sdpa (causal)"


def timer(device: str) -> Callable[[Callable[[], object]], float]:
    """What measures one call in milliseconds: events on a GPU, the clock elsewhere."""

    def with_events(call: Callable[[], object]) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end)

    def with_clock(call: Callable[[], object]) -> float:
        start = time.perf_counter()
        call()
        return 1000 * (time.perf_counter() - start)

    return with_events if device == "cuda" else with_clock


def medians(
    calls: dict[str, Callable[[], object]], rounds: int, measure: Callable[..., float]
) -> dict[str, float]:
    """Median milliseconds of each call; the calls take turns."""
    for call in calls.values():
        for _ in range(3):
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(measure(call))
    return {name: statistics.median(series) for name, series in times.items()}


def attentions(module: ModuleType, length: int) -> dict[str, Callable[..., Tensor]]:
    """What is timed side by side: PyTorch's own, and every form of the module."""
    calls: dict[str, Callable[..., Tensor]] = {
        SDPA: partial(F.scaled_dot_product_attention, is_causal=True)
    }
    for form in module.FORMS:
        if form != "recurrent" or length <= 1024:  # token by token: not for long sequences
            calls[form] = partial(module.attention, form=form)
    return calls


def forward_and_backward(
    call: Callable[..., Tensor], leaves: tuple[Tensor, ...], gradient: Tensor
) -> tuple[Tensor, ...]:
    return torch.autograd.grad(call(*leaves), leaves, gradient)


def time_example(
    module: ModuleType, heads: int, lengths: tuple[int, ...], device: str, tokens: int, rounds: int
) -> list[dict[str, Any]]:
    """One record per length and pass, with `tokens` rows in a batch at least."""
    records = []
    for length in lengths:
        shape = (max(1, tokens // length), heads, length, 64)
        inputs = [torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(3)]
        leaves = tuple(tensor.clone().requires_grad_() for tensor in inputs)
        gradient = torch.randn_like(inputs[0])
        calls = attentions(module, length)
        passes: dict[str, dict[str, Callable[[], object]]] = {
            "forward": {name: partial(call, *inputs) for name, call in calls.items()},
            "forward + backward": {
                name: partial(forward_and_backward, call, leaves, gradient)
                for name, call in calls.items()
            },
        }
        for what, candidates in passes.items():
            found = medians(candidates, rounds, timer(device))
            records.append({"what": what, "shape": list(shape), "milliseconds": found})
    return records


def measure_example(path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Compiled, verified on the device and timed there; what cannot be timed says why."""
    made = attnc.compile(path, verify="none")
    record: dict[str, Any] = {"times": [], "not_timed": None, "verified": None}
    if arguments.device == "cuda":
        verdict = verify_module(made.source, made.ir, made.facts, Effort.QUICK, here_too=True)
        record["verified"] = verdict.as_dict()
    module = attnc.load(path, verify="none")
    lengths = tuple(arguments.lengths or (LENGTHS[:2] if arguments.quick else LENGTHS))
    sizes = (16384, 15) if arguments.device == "cuda" else (1, 3)
    try:
        record["times"] = time_example(
            module, made.ir.heads or 8, lengths, arguments.device, *sizes
        )
    except (TypeError, ValueError, RuntimeError) as problem:  # such as more tensors than q, k, v
        record["not_timed"] = f"{type(problem).__name__}: {problem}".splitlines()[0]
    return record


def times_table(times: list[dict[str, Any]]) -> list[str]:
    columns = list(dict.fromkeys(name for row in times for name in row["milliseconds"]))
    lines = [f"| {' | '.join(['pass', 'shape', *columns])} |", "|" + "---|" * (len(columns) + 2)]
    for row in times:
        cells = [row["milliseconds"].get(name) for name in columns]
        shown = ["" if cell is None else f"{cell:.3f}" for cell in cells]
        lines.append(f"| {' | '.join([row['what'], str(row['shape']), *shown])} |")
    return lines


def markdown(record: dict[str, Any]) -> str:
    lines = [f"# {record['device']}, {record['date']}", ""]
    lines += [f"- {name}: {record[name]}" for name in
              ("command", "attnc", "torch", "triton", "python")]  # fmt: skip
    lines += ["", "Medians in milliseconds, bfloat16, shape [batch, heads, length, size]."]
    for name, example in record["examples"].items():
        verified = example["verified"]
        lines += ["", f"## {name}", ""]
        if verified is None:
            lines += ["Not verified on this device.", ""]
        else:
            lines += [f"Verified: {'yes' if verified['ok'] else 'FAILED'}; {verified['summary']}."]
            lines += [f"- skipped: {reason}" for reason in verified["skipped"]] + [""]
        lines += [f"Not timed: {example['not_timed']}"] if example["not_timed"] else []
        lines += times_table(example["times"]) if example["times"] else []
    return "\n".join(lines) + "\n"


def version(name: str) -> str:
    try:
        return str(importlib.import_module(name).__version__)
    except ImportError:
        return "none"


def write(record: dict[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"gpu-{record['device'].lower().replace(' ', '-').replace('/', '-')}-{record['date']}"
    (folder / f"{stem}.json").write_text(json.dumps(record, indent=1) + "\n")
    (folder / f"{stem}.md").write_text(markdown(record))


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer lengths")
    parser.add_argument("--examples", nargs="*", help="names; default: all")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--lengths", type=int, nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                        help=argparse.SUPPRESS)  # fmt: skip
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    arguments = parse(words)
    on_gpu = arguments.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        print("There is no GPU here that torch can use, so there is nothing to measure.")
        return 0
    given = sys.argv[1:] if words is None else words
    record: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "command": " ".join(["python", "benchmarks/gpu.py", *given]),
        "attnc": attnc.__version__,
        "torch": torch.__version__,
        "triton": version("triton"),
        "python": platform.python_version(),
        "examples": {},
    }
    for path in sorted((ROOT / "examples").glob("*.attn")):
        if not arguments.examples or path.stem in arguments.examples:
            print(f"{path.stem} ...", file=sys.stderr, flush=True)
            record["examples"][path.stem] = measure_example(path, arguments)
    write(record, arguments.output)
    print(markdown(record))
    verdicts = [example["verified"] for example in record["examples"].values()]
    return 0 if all(verdict is None or verdict["ok"] for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
