"""The package's two functions, the cache, and the order of the stages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import attnc
from attnc.pipeline import check
from attnc.source import Source

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.attn"))
LINEAR = ROOT / "examples" / "linear.attn"
TEXT = """
attention tiny {
    phi(x)     = elu(x) + 1
    similarity = phi(q) @ phi(k)
    mask       = causal
    align      = lower_right
    normalizer = on
}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("ATTNC_CACHE_DIR", str(folder))
    return folder


def python(code: str, cwd: Path, *, wait: bool = True) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if wait:
        process.wait(timeout=120)
    return process


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_check_and_compile(path: Path) -> None:
    compiled = attnc.compile(path, reference_only=True)
    assert compiled.diagnostics == ()
    assert compiled.name == compiled.ir.name == path.stem
    compile(compiled.source, f"{path.stem}.py", "exec")
    assert attnc.compile(str(path), reference_only=True).source == compiled.source


def test_text_and_path_are_told_apart(tmp_path: Path) -> None:
    assert attnc.compile(TEXT, reference_only=True).name == "tiny"
    with pytest.raises(attnc.FileProblem, match="no such file"):
        attnc.compile(tmp_path / "nosuch.attn")


def test_a_wrong_spec_raises_with_every_finding() -> None:
    wrong = TEXT.replace("causal", "causall").replace("elu(x)", "ellu(x)")
    with pytest.raises(attnc.SpecError) as caught:
        attnc.compile(wrong)
    lines = [found.span.line for found in caught.value.diagnostics]
    assert sorted(set(lines)) == [3, 5]
    assert "<spec>:5:" in str(caught.value)


def test_check_stops_before_analysing_what_has_no_meaning() -> None:
    checked = check(Source("x.attn", "attention x { }"))
    assert not checked.ok
    assert checked.facts is None
    assert checked.diagnostics


def test_write(tmp_path: Path) -> None:
    compiled = attnc.compile(LINEAR, reference_only=True)
    assert compiled.write(tmp_path) == tmp_path / "linear.py"
    assert compiled.write(tmp_path / "other.py").read_text() == compiled.source
    (tmp_path / "mine.py").write_text("x = 1\n")
    with pytest.raises(attnc.FileProblem, match="not overwritten"):
        compiled.write(tmp_path / "mine.py")


@pytest.mark.parametrize("wrong", [{"form": "circular"}])
def test_unknown_options(wrong: dict[str, str]) -> None:
    with pytest.raises((ValueError, attnc.SpecError), match=next(iter(wrong.values()))):
        attnc.compile(LINEAR, **wrong)  # type: ignore[arg-type]


def test_load_is_cached_by_content_and_options(cache: Path) -> None:
    first = attnc.load(LINEAR, reference_only=True)
    assert attnc.load(LINEAR, reference_only=True) is first
    assert attnc.load(LINEAR.read_text(), reference_only=True) is first
    other = attnc.load(LINEAR, set={"heads": 2}, reference_only=True)
    assert other is not first
    assert len(list(cache.glob("*.py"))) == 2
    assert not list(cache.glob(".*"))


def test_a_changed_spec_of_one_name_is_another_module(tmp_path: Path) -> None:
    """Field report B86: the second result is that of the second spec, in the same process and in
    a new one."""
    import torch

    path = tmp_path / "tiny.attn"
    relu = TEXT.replace("elu(x) + 1", "relu(x)")
    code = (
        "import torch, attnc\ntorch.manual_seed(0)\n"
        f"module = attnc.load({str(path)!r}, reference_only=True)\n"
        "o = module.reference(*torch.randn(3, 1, 1, 9, 4))\n"
        "print(o.double().sum().item())\n"
    )

    def here() -> float:
        torch.manual_seed(0)
        return (
            attnc.load(path, reference_only=True)
            .reference(*torch.randn(3, 1, 1, 9, 4))
            .double()
            .sum()
            .item()
        )

    def there() -> float:
        process = python(code, tmp_path)
        assert process.returncode == 0, process.stderr.read()  # type: ignore[union-attr]
        return float(process.stdout.read())  # type: ignore[union-attr]

    path.write_text(TEXT)
    old = here()
    assert there() == pytest.approx(old, abs=1e-6)
    path.write_text(relu)
    new = here()
    assert abs(new - old) > 1e-3
    assert there() == pytest.approx(new, abs=1e-6)


def test_a_module_compiled_again_under_one_name(tmp_path: Path) -> None:
    """B86 for a module that the user writes to the same file: a new process reads the new one."""
    code = (
        "import torch, tiny\ntorch.manual_seed(0)\n"
        "print(tiny.reference(*torch.randn(3, 1, 1, 9, 4)).double().sum().item())\n"
    )
    sums = []
    for text in (TEXT, TEXT.replace("elu(x) + 1", "relu(x)")):
        attnc.compile(text, reference_only=True).write(tmp_path)
        process = python(code, tmp_path)
        assert process.returncode == 0, process.stderr.read()  # type: ignore[union-attr]
        sums.append(float(process.stdout.read()))  # type: ignore[union-attr]
    assert abs(sums[0] - sums[1]) > 1e-3


def test_several_processes_load_at_once(tmp_path: Path, cache: Path) -> None:
    code = (
        f"import attnc\nm = attnc.load({str(LINEAR)!r}, reference_only=True)\nprint(m.__file__)\n"
    )
    processes = [python(code, tmp_path, wait=False) for _ in range(4)]
    said = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, said
    assert len({out for out, _ in said}) == 1
    assert len(list(cache.glob("*.py"))) == 1


def test_a_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATTNC_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(attnc.FileProblem, match="ATTNC_CACHE_DIR"):
        attnc.load(TEXT.replace("tiny", "unseen"), reference_only=True)


def test_reference_only() -> None:
    module = attnc.load(TEXT.replace("tiny", "only"), reference_only=True)
    assert isinstance(module, ModuleType)
    assert module.FORMS == ()
    import torch

    q = torch.zeros(1, 1, 3, 2, dtype=torch.float64)
    v = torch.tensor([[[[1.0], [2.0], [6.0]]]], dtype=torch.float64)
    assert module.reference(q, q, v).flatten().tolist() == pytest.approx([1.0, 1.5, 3.0])


def test_importing_attnc_is_cheap(tmp_path: Path) -> None:
    code = "import sys, attnc; assert not {'torch', 'lark', 'numpy', 'jinja2'} & set(sys.modules)"
    process = python(code, tmp_path)
    assert process.returncode == 0, process.stderr.read()  # type: ignore[union-attr]


def test_a_spec_without_kernels_is_noted_and_refused() -> None:
    text = TEXT.replace("mask ", "input bias : [B, H, L, S]\n    mask ", 1)
    text = text.replace("phi(q) @ phi(k)", "exp(phi(q) @ phi(k) + bias[b, h, i, j])", 1)
    notes = [d for d in check(Source("tiny.attn", text)).diagnostics if d.code == "N302"]
    with pytest.raises(attnc.SpecError) as refused:
        attnc.compile(text)
    found = [d for d in refused.value.diagnostics if d.code == "E401"]
    assert len(notes) == len(found) == 1 and notes[0].span.text == found[0].span.text
    assert "no kernels yet" in found[0].message and "reference_only" in found[0].hint
    assert "def reference(" in attnc.compile(text, reference_only=True).source


def test_the_hash_tells_settings_apart() -> None:
    def line(**settings: object) -> str:
        compiled = attnc.compile(LINEAR, set=settings, reference_only=True)
        return compiled.source.splitlines()[1]

    assert line() == line()
    assert len({line(), line(heads=2), line(heads=4), line(form="recurrent")}) == 4
