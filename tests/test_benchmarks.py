"""The benchmark program, as far as a machine without a GPU can run it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def gpu() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu", ROOT / "benchmarks" / "gpu.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_a_gpu_it_says_so(
    gpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main(["--output", str(tmp_path / "results")]) == 0
    assert "no GPU" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()


def test_the_table_shows_the_numbers(gpu: ModuleType) -> None:
    lines = gpu.times_table(
        [
            {"what": "forward", "shape": [1, 2], "milliseconds": {"a": 1.0, "b": 0.25}},
            {"what": "backward", "shape": [3], "milliseconds": {"a": 2.0006}},
        ]
    )
    assert lines == [
        "| pass | shape | a | b |",
        "|---|---|---|---|",
        "| forward | [1, 2] | 1.000 | 0.250 |",
        "| backward | [3] | 2.001 |  |",
    ]


def test_medians_are_of_every_round_and_calls_take_turns(gpu: ModuleType) -> None:
    order: list[str] = []
    calls = {name: lambda name=name: name for name in "ab"}
    times = iter([1.0, 10.0, 5.0, 30.0, 2.0, 20.0])

    def measure(call: object) -> float:
        order.append(call())  # type: ignore[operator]
        return next(times)

    assert gpu.medians(calls, 3, measure) == {"a": 2.0, "b": 20.0}
    assert order == ["a", "b"] * 3


def test_a_failed_verification_is_told(gpu: ModuleType) -> None:
    head = dict.fromkeys(("device", "date", "command", "attnc", "torch", "triton", "python"), "x")
    verified = {"ok": False, "summary": "1 of 2 comparisons failed", "skipped": ["fp8: no"]}
    example = {"verified": verified, "times": [], "not_timed": "TypeError: gate is missing"}
    text = gpu.markdown({**head, "examples": {"some": example}})
    assert "FAILED; 1 of 2 comparisons failed" in text
    assert "- skipped: fp8: no" in text and "Not timed: TypeError: gate is missing" in text


def test_the_timing_on_a_cpu(
    gpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = ["--device", "cpu", "--lengths", "16", "--examples", "linear"]
    assert gpu.main([*words, "--output", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*.json")
    example = json.loads(path.read_text())["examples"]["linear"]
    assert example["not_timed"] is None and example["verified"] is None
    assert [row["what"] for row in example["times"]] == ["forward", "forward + backward"]
    for row in example["times"]:
        assert gpu.SDPA in row["milliseconds"] and len(row["milliseconds"]) > 1
        assert all(value > 0 for value in row["milliseconds"].values())
    assert "## linear" in path.with_suffix(".md").read_text()
