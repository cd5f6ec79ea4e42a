"""Verify every example on this machine's GPU, and time it against scaled_dot_product_attention.

    python benchmarks/gpu.py [--quick] [--examples NAME ...]

Writes one JSON record and one Markdown table to benchmarks/results/. Timings are medians; the
candidates take turns within one run, so that they meet the same clocks. Without a GPU it says so.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor
from torch.nn import functional as F

import attnc

ROOT = Path(__file__).resolve().parent.parent
# batch, heads, L, S, d_k, d_v: both sides of tiles and chunks, ragged, few rows, many rows
SHAPES = (
    (1, 2, 1, 1, 16, 16),
    (2, 3, 63, 63, 80, 48),
    (1, 2, 65, 65, 64, 128),
    (2, 2, 200, 200, 128, 64),
    (1, 8, 100, 300, 64, 64),
    (1, 2, 1000, 1000, 5, 7),
)
LENGTHS = (1024, 4096, 16384)
BOUNDS = {"float32": 1e-5, "bfloat16": 2.0}  # relative to 1; relative to plain torch in 16 bits


def relative(found: Tensor, right: Tensor) -> float:
    """The L2 norm of the difference over that of the right result."""
    found, right = found.double(), right.double()
    size = right.norm().item()
    return (found - right).norm().item() / size if size else (found - right).norm().item()


def values_and_gradients(call: Callable[..., Tensor], tensors: list[Tensor]) -> list[Tensor]:
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    out = call(*leaves)
    direction = torch.linspace(-1, 1, out.numel(), device=out.device).reshape(out.shape)
    gradients = torch.autograd.grad(out, leaves, direction.to(out.dtype))
    return [out.detach(), *gradients]


def verify_example(module: ModuleType, heads: int | None, quick: bool) -> list[dict]:
    """One record per form, dtype and shape: errors of o, dq, dk, dv."""
    records = []
    for batch, some_heads, rows, keys, d_k, d_v in SHAPES[: 3 if quick else None]:
        torch.manual_seed(0)
        h = heads or some_heads
        shapes = ((batch, h, rows, d_k), (batch, h, keys, d_k), (batch, h, keys, d_v))
        exact = [torch.randn(shape, device="cuda", dtype=torch.float64) for shape in shapes]
        for dtype in (torch.float32, torch.bfloat16):
            rounded = [tensor.to(dtype) for tensor in exact]
            right = values_and_gradients(module.reference, [t.double() for t in rounded])
            plain = values_and_gradients(module.reference, rounded)
            for form in module.FORMS:
                call = partial(module.attention, form=form, backend="triton")
                found = values_and_gradients(call, rounded)
                again = values_and_gradients(call, rounded)
                errors = [relative(a, b) for a, b in zip(found, right, strict=True)]
                of_plain = [relative(a, b) for a, b in zip(plain, right, strict=True)]
                if dtype is torch.float32:
                    bounds = [BOUNDS["float32"]] * 4
                else:
                    bounds = [BOUNDS["bfloat16"] * max(e, 2**-9) for e in of_plain]
                records.append(
                    {
                        "form": form,
                        "dtype": str(dtype).removeprefix("torch."),
                        "shape": [batch, h, rows, keys, d_k, d_v],
                        "errors": dict(zip(("o", "dq", "dk", "dv"), errors, strict=True)),
                        "bounds": dict(zip(("o", "dq", "dk", "dv"), bounds, strict=True)),
                        "deterministic": all(map(torch.equal, found, again)),
                        "ok": all(e <= b for e, b in zip(errors, bounds, strict=True)),
                    }
                )
    return records


def time_candidates(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each call; the calls take turns."""
    for call in calls.values():
        for _ in range(3):
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times[name].append(start.elapsed_time(end))
    return {name: statistics.median(series) for name, series in times.items()}


def attentions(module: ModuleType, length: int) -> dict[str, Callable[..., Tensor]]:
    """What is timed side by side: PyTorch's own, and every form of the module."""
    calls: dict[str, Callable[..., Tensor]] = {
        "sdpa": partial(F.scaled_dot_product_attention, is_causal=True)
    }
    for form in module.FORMS:
        if form != "recurrent" or length <= 1024:  # a step per token: not for long sequences
            calls[form] = partial(module.attention, form=form)
    return calls


def forward_and_backward(
    call: Callable[..., Tensor], leaves: tuple[Tensor, ...], gradient: Tensor
) -> tuple[Tensor, ...]:
    return torch.autograd.grad(call(*leaves), leaves, gradient)


def time_example(module: ModuleType, heads: int, lengths: tuple[int, ...]) -> list[dict]:
    records = []
    for length in lengths:
        shape = (max(1, 16384 // length), heads, length, 64)
        inputs = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
        leaves = tuple(tensor.clone().requires_grad_() for tensor in inputs)
        gradient = torch.randn_like(inputs[0])
        calls = attentions(module, length)
        passes = {
            "forward": {name: partial(call, *inputs) for name, call in calls.items()},
            "forward + backward": {
                name: partial(forward_and_backward, call, leaves, gradient)
                for name, call in calls.items()
            },
        }
        for what, candidates in passes.items():
            medians = time_candidates(candidates, rounds=15)
            records.append({"what": what, "shape": list(shape), "milliseconds": medians})
    return records


def markdown(record: dict) -> str:
    lines = [f"# {record['device']}, {record['date']}", ""]
    lines += [f"- {name}: {record[name]}" for name in ("command", "attnc", "torch", "triton")]
    lines += ["", "Medians in milliseconds, bfloat16, shape [batch, heads, length, size].", ""]
    for name, example in record["examples"].items():
        checks = example["checks"]
        failed = [check for check in checks if not check["ok"]]
        worst = max(
            (max(c["errors"].values()) for c in checks if c["dtype"] == "float32"), default=0
        )
        lines += [f"## {name}", "", f"{len(checks)} comparisons with the definition, {len(failed)} "
                  f"beyond the bound; largest float32 error {worst:.1e}.", ""]  # fmt: skip
        lines += [f"- FAILED: {check}" for check in failed]
        columns = sorted({c for row in example["times"] for c in row["milliseconds"]})
        lines += [
            "| pass | shape | " + " | ".join(columns) + " |",
            "|" + "---|" * (len(columns) + 2),
        ]
        for row in example["times"]:
            cells = [f"{row['milliseconds'][c]:.3f}" if c in row["milliseconds"] else ""
                     for c in columns]  # fmt: skip
            lines.append(f"| {row['what']} | {row['shape']} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer shapes and lengths")
    parser.add_argument("--examples", nargs="*", help="names; default: all")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("There is no GPU here that torch can use, so there is nothing to measure.")
        return 0
    import triton

    record = {
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name(),
        "command": " ".join(["python", "benchmarks/gpu.py", *sys.argv[1:]]),
        "attnc": attnc.__version__,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": platform.python_version(),
        "examples": {},
    }
    for path in sorted((ROOT / "examples").glob("*.attn")):
        if arguments.examples and path.stem not in arguments.examples:
            continue
        print(f"{path.stem} ...", flush=True)
        compiled = attnc.compile(path)
        module = attnc.load(path)
        lengths = LENGTHS[:2] if arguments.quick else LENGTHS
        record["examples"][path.stem] = {
            "checks": verify_example(module, compiled.ir.heads, arguments.quick),
            "times": time_example(module, compiled.ir.heads or 8, lengths),
        }
    arguments.output.mkdir(parents=True, exist_ok=True)
    stem = f"gpu-{record['device'].lower().replace(' ', '-')}-{record['date']}"
    (arguments.output / f"{stem}.json").write_text(json.dumps(record, indent=1) + "\n")
    (arguments.output / f"{stem}.md").write_text(markdown(record))
    print(markdown(record))
    checks = [check for example in record["examples"].values() for check in example["checks"]]
    return 0 if all(check["ok"] and check["deterministic"] for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
