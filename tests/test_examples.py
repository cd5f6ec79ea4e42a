"""The example programs do what they say."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import attnc

ROOT = Path(__file__).resolve().parent.parent
SPECS = sorted((ROOT / "examples").glob("*.attn"))


def program(name: str, folder: str = "examples") -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNC_CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_spec_says_whose_it_is(path: Path) -> None:
    first, second = path.read_text().splitlines()[:2]
    assert first.startswith("# ")
    assert re.search(r"\b(19|20)\d\d\b", second), "the second line names the paper and its year"
    assert f"attention {path.stem} {{" in path.read_text()


@pytest.mark.parametrize(("pairs", "error"), [(8, 0.46), (16, 0.68), (32, 0.99)])
def test_recall(pairs: int, error: float) -> None:
    recall = program("recall")
    memory = attnc.load(recall.SPEC)
    assert recall.recall_error(memory, pairs, trials=2000) == pytest.approx(error, abs=0.01)


@pytest.mark.parametrize("name", ["softmax_causal", "linear", "retention"])
def test_training_lowers_the_loss(name: str) -> None:
    train = program("train")
    torch.manual_seed(0)
    torch.set_num_threads(2)
    attention = attnc.load(ROOT / "examples" / f"{name}.attn", set={"heads": train.HEADS})
    model = train.Model(attention)
    text = torch.tensor(list("\n".join(train.topics.values()).encode()))
    losses = train.train(model, text, seconds=8)
    start, end = losses[0], sum(losses[-10:]) / 10
    assert start > 7, "an untrained model knows nothing: 8 bits per byte"
    assert end < 4.5
    written = train.sample(model, "The ", 20)
    assert len(written.encode()) >= 24 and written.startswith("The ")


def test_the_sample_from_the_state_is_that_of_the_whole_text() -> None:
    train = program("train")
    torch.manual_seed(0)
    attention = attnc.load(ROOT / "examples" / "retention.attn", set={"heads": train.HEADS})
    model = train.Model(attention).eval()
    tokens = torch.randint(256, (1, 12))
    with torch.no_grad():
        whole, _ = model(tokens[:, 1:], tokens[:, :-1])
        _, states = model(tokens[:, 1:8], tokens[:, :7])
        for n in range(8, 12):
            last, states = model(tokens[:, n : n + 1], tokens[:, n - 1 : n], states)
    torch.testing.assert_close(last[:, -1], whole[:, -1], rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_the_gpu_benchmark_is_polite_without_one() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "gpu.py"],
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "no GPU" in done.stdout
