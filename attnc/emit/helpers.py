"""The helper functions that a module needs, out of the files that hold them."""

from __future__ import annotations

import ast

from attnc.resources import folder


def needed(file: str, *texts: str) -> str:
    """The functions of `templates/<file>` that the texts use, with those that these use."""
    source = (folder("templates") / file).read_text(encoding="utf-8")
    lines = source.splitlines()
    functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    uses = {f.name: _names(f) for f in functions}
    wanted: set[str] = set()
    fresh = set().union(*(_names(ast.parse(text)) for text in texts)) & uses.keys()
    while fresh:
        wanted |= fresh
        fresh = set().union(*(uses[name] for name in fresh)) & uses.keys() - wanted
    parts = []
    for function in functions:
        if function.name in wanted:
            first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
            parts.append("\n".join(lines[first - 1 : function.end_lineno]))
    return "\n\n\n".join(parts)


def _names(tree: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
