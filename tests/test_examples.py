"""The shipped specs."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import attnc

ROOT = Path(__file__).resolve().parent.parent
SPECS = sorted((ROOT / "examples").glob("*.attn"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_spec_says_whose_it_is(path: Path) -> None:
    first, second = path.read_text().splitlines()[:2]
    assert first.startswith("# ")
    assert re.search(r"\b(19|20)\d\d\b", second), "the second line names the paper and its year"
    assert f"attention {path.stem} {{" in path.read_text()


def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"example_{name}", ROOT / "examples" / f"{name}.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("pairs", "error"), [(8, 0.46), (16, 0.68), (32, 0.99)])
def test_recall(pairs: int, error: float) -> None:
    recall = program("recall")
    memory = attnc.load(recall.SPEC, verify="none")
    assert recall.recall_error(memory, pairs, trials=2000) == pytest.approx(error, abs=0.01)


def test_training_brings_the_loss_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = ["--attention", "linear", "--steps", "60", "--verify", "none"]
    monkeypatch.setattr(sys, "argv", ["train.py", *words])
    program("train").main()
    text = capsys.readouterr().out
    losses = [float(number) for number in re.findall(r"([\d.]+) bits per byte", text)]
    assert losses[0] > 7, "before training every byte is about as likely as any other"
    assert losses[-1] < losses[0] - 2
    assert "The expression" in text
