"""A wheel works where the tree is not: grammar, templates and examples are inside."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from attnc.resources import folder
from attnc.version import __version__

ROOT = Path(__file__).resolve().parent.parent


def run(*arguments: object, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        list(map(str, arguments)),
        cwd=cwd,
        env={name: value for name, value in {**os.environ, **(env or {})}.items() if value},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the tree, with the setuptools of this environment."""
    pytest.importorskip("setuptools", "77", reason="building needs setuptools")
    work = tmp_path_factory.mktemp("wheel")
    tree = work / "tree"
    tree.mkdir()
    names = ("attnc", "grammar", "templates", "examples", "pyproject.toml", "setup.py")
    for name in (*names, "MANIFEST.in", "README.md", "LICENSE"):
        run("cp", "-r", ROOT / name, tree, cwd=work)
    build = "from setuptools.build_meta import build_wheel; build_wheel('..')"
    run(sys.executable, "-c", build, cwd=tree)
    (built,) = work.glob("*.whl")
    return built


def test_the_wheel_holds_the_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert wheel.name == f"attnc-{__version__}-py3-none-any.whl"
    for name in ("grammar", "templates", "examples"):
        files = [
            p for p in (ROOT / name).rglob("*") if p.is_file() and "__pycache__" not in p.parts
        ]
        assert files
        for file in files:
            assert f"attnc/_data/{file.relative_to(ROOT)}" in names
    assert not [name for name in names if "tests" in name or "__pycache__" in name]
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_works_where_the_tree_is_not(wheel: Path, tmp_path: Path) -> None:
    site, work = tmp_path / "site", tmp_path / "work"
    work.mkdir()
    zipfile.ZipFile(wheel).extractall(site)
    env = {"PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}
    command = (sys.executable, "-m", "attnc")
    found = run(sys.executable, "-c", "import attnc; print(attnc.__file__)", cwd=work, env=env)
    assert found.startswith(str(site))
    run(*command, "examples", "retention", "-o", "retention.attn", cwd=work, env=env)
    run(*command, "check", "retention.attn", cwd=work, env=env)
    run(*command, "compile", "--reference-only", "retention.attn", cwd=work, env=env)
    code = (
        "import sys, torch, retention\n"
        "o = retention.reference(*torch.ones(3, 1, 8, 5, 4))\n"
        "assert o.shape == (1, 8, 5, 4) and 'attnc' not in sys.modules\n"
    )
    run(sys.executable, "-c", code, cwd=work, env={"PYTHONPATH": str(work)})


def test_the_wheel_declares_the_command(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (points,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
    assert "attnc = attnc.cli:main" in archive.read(points).decode()


def test_folders_of_the_checkout() -> None:
    for name in ("grammar", "templates", "examples"):
        assert folder(name) == ROOT / name
    with pytest.raises(FileNotFoundError, match="nosuch"):
        folder("nosuch")
