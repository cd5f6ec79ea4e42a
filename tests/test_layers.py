"""A file imports only from lower layers, and nothing slow or foreign where it must not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "attnc"

# the first prefix that fits counts; a file may import from lower layers, and, where several files
# share a row here, from its own row
LAYERS: tuple[tuple[str, int], ...] = (
    ("attnc.source", 0),
    ("attnc.resources", 0),
    ("attnc.version", 0),
    ("attnc.files", 1),
    ("attnc.diagnostics", 1),
    ("attnc.syntax", 2),
    ("attnc.ir", 2),
    ("attnc.prelude", 3),
    ("attnc.passes", 4),
    ("attnc.emit", 5),
    ("attnc.verify", 5),
    ("attnc.inspect", 5),
    ("attnc.pipeline", 6),
    ("attnc.costs", 6),
    ("attnc.explain", 6),
    ("attnc.explain_text", 6),
    ("attnc.cache", 6),
    ("attnc.console", 6),
    ("attnc.cli", 7),
    ("attnc.__main__", 7),
    ("attnc", 7),
)
STAGES = ("attnc.cli", "attnc.pipeline", "attnc")  # may import a command's own stages where used
SLOW = ("torch", "triton")
USERS_OF_SLOW = ("attnc.verify", "attnc.inspect")

FILES = sorted(PACKAGE.rglob("*.py"))


def module_of(file: Path) -> str:
    parts = ("attnc", *file.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def row_of(module: str) -> tuple[str, int]:
    return next(row for row in LAYERS if module == row[0] or module.startswith(row[0] + "."))


def imports(tree: ast.AST) -> list[tuple[str, int, bool]]:
    """Each import: the module, the line, and whether it stands at the top of the file."""
    found: list[tuple[str, int, bool]] = []

    def visit(node: ast.AST, top: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.extend((alias.name, child.lineno, top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert not child.level, f"line {child.lineno}: imports are absolute here"
                base = child.module or ""
                for alias in child.names:
                    full = f"{base}.{alias.name}"
                    names_a_module = (PACKAGE.parent / full.replace(".", "/")).with_suffix(".py")
                    found.append((full if names_a_module.exists() else base, child.lineno, top))
            elif isinstance(child, ast.If) and is_type_checking(child.test):
                continue
            else:
                inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                visit(child, top and not inside)

    visit(tree, True)
    return found


def is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_imports_go_downward(file: Path) -> None:
    module = module_of(file)
    name, layer = row_of(module)
    for imported, line, _ in imports(ast.parse(file.read_text(encoding="utf-8"))):
        if imported == "attnc" or imported.startswith("attnc."):
            other, lower = row_of(imported)
            same_part = other == name or {other, name} == {"attnc.syntax", "attnc.ir"}
            same_face = layer == lower == 6 or layer == lower == 7
            assert lower < layer or same_part or same_face, f"{file}:{line}: {module} <- {imported}"


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_imports_stand_at_the_top(file: Path) -> None:
    module = module_of(file)
    for imported, line, top in imports(ast.parse(file.read_text(encoding="utf-8"))):
        allowed = imported.split(".")[0] in SLOW or module in STAGES
        assert top or allowed, f"{file}:{line}: {module} imports {imported} inside a function"


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_only_the_verification_imports_torch(file: Path) -> None:
    module = module_of(file)
    for imported, line, _ in imports(ast.parse(file.read_text(encoding="utf-8"))):
        if imported.split(".")[0] in SLOW:
            assert module.startswith(USERS_OF_SLOW), f"{file}:{line}: {module} imports {imported}"


def test_every_file_has_a_layer() -> None:
    assert FILES
    for file in FILES:
        name, _ = row_of(module_of(file))
        assert name != "attnc" or module_of(file) == "attnc", f"{file} has no row in LAYERS"


def test_the_rule_can_fail() -> None:
    source = "from attnc.pipeline import check\ndef f():\n    import attnc.cli\n    import torch\n"
    found = imports(ast.parse(source))
    assert found == [("attnc.pipeline", 1, True), ("attnc.cli", 3, False), ("torch", 4, False)]
    assert row_of("attnc.pipeline")[1] > row_of("attnc.passes.resolve")[1]
