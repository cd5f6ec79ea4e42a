"""What the README and the docs say is so."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import attnc
from attnc.cli import attnc as command
from attnc.pipeline import check
from attnc.source import Source

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(text: str, language: str) -> list[str]:
    every = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    return [block for name, block in every if name == language]


def test_two_commands_do_all_the_set_up() -> None:
    first, second = (block.strip() for block in blocks(README, "sh"))
    assert first == "pip install . && attnc compile examples/retention.attn"
    assert second == 'pip install -e ".[test]" && python -m pytest'


def test_the_spec_shown_is_the_example() -> None:
    spec = next(block for block in blocks(README, "") if "attention retention" in block)
    assert spec == (ROOT / "examples" / "retention.attn").read_text("utf-8")


def test_the_python_shown_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "retention", raising=False)
    attnc.compile(ROOT / "examples" / "retention.attn", verify="none").write(tmp_path)
    names: dict[str, object] = {}
    shown = blocks(README, "python")
    assert len(shown) == 2
    for block in shown:
        # the verification has tests of its own
        block = block.replace('linear.attn")', 'linear.attn", verify="none")')
        exec(compile(block, "README.md", "exec"), names)
    assert names["o"].shape == (2, 8, 100, 64)  # type: ignore[attr-defined]
    sys.modules.pop("retention", None)


def test_the_slip_shown_is_what_is_said() -> None:
    """The README shows a wrong spec, and below it what `attnc check` answers."""
    spec = next(block for block in blocks(README, "") if block.startswith("attention slip"))
    shown = next(block for block in blocks(README, "") if block.startswith("$ attnc check slip"))
    with pytest.raises(attnc.SpecError) as refused:
        attnc.compile(spec)
    said = str(refused.value).replace("<spec>:", "slip.attn:")
    assert shown == f"$ attnc check slip.attn\n{said}\n"


def specs_shown() -> list[str]:
    found = []
    for page in PAGES:
        for block in blocks(page.read_text("utf-8"), ""):
            found += re.findall(r"^attention \w+ \{.*?^\}", block, re.M | re.S)
    return [spec for spec in found if not spec.startswith("attention slip")]


@pytest.mark.parametrize("spec", specs_shown())
def test_specs_shown_have_no_errors(spec: str) -> None:
    found = check(Source("shown.attn", spec + "\n"))
    assert found.ok, [str(diagnostic) for diagnostic in found.diagnostics]


def test_some_specs_are_shown() -> None:
    assert len(specs_shown()) >= 4


def test_the_table_of_commands_is_the_command() -> None:
    rows = re.findall(r"^\| `attnc (\w+)[^|]*\|", README, re.M)
    rows += re.findall(r"`attnc (\w+)[^`]*` \|", README)
    assert set(rows) == set(command.commands)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text("utf-8")
    for target in re.findall(
        r"\]\(([^)#]+)(?:#[^)]*)?\)", re.sub(r"```.*?```", "", text, flags=re.S)
    ):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_shown_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    for name in re.findall(
        r"`?attnc (compile|check|explain|verify|fmt|inspect|bench|plot)\b", text
    ):
        assert name in command.commands, f"{page.name}: attnc {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_exist(page: Path) -> None:
    pattern = r"`((?:attnc|grammar|templates|examples|benchmarks|docs|tests)/[\w./-]+)`"
    for name in re.findall(pattern, page.read_text("utf-8")):
        assert name == "benchmarks/results/" or (ROOT / name).exists(), f"{page.name}: {name}"


def test_the_pipeline_line_is_that_of_the_code() -> None:
    import attnc.pipeline

    line = "text --resolve--> AttnSpec --analyse--> Facts --lower--> ModulePlan --render--> module"
    assert line in README
    assert line in (attnc.pipeline.__doc__ or "")


def test_json_keys_of_explain_are_documented() -> None:
    from dataclasses import fields

    from attnc.explain import Explanation

    page = (ROOT / "docs" / "explain.md").read_text("utf-8")
    for field in fields(Explanation):
        assert f"`{field.name}`" in page


def test_ci_runs_what_the_readme_says() -> None:
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "python -m pytest" in script
    assert "attnc compile examples/*.attn" in script
