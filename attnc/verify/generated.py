"""The text of a generated module: the spec inside it, and the line that names the verification."""

from __future__ import annotations

import ast
import re

VERIFICATION = "# verification: "
_HASH = re.compile(r"# spec \S+, hash ([0-9a-f]+)")


def with_outcome(text: str, outcome: str) -> str:
    """The module with the verification's outcome as the last line of its header."""
    lines = text.split("\n")
    end = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    header = [line for line in lines[:end] if not line.startswith(VERIFICATION)]
    return "\n".join([*header, VERIFICATION + outcome, *lines[end:]])


def spec_in(text: str) -> str | None:
    """The spec in a module's docstring; None where the text is no module with one."""
    try:
        found = ast.get_docstring(ast.parse(text), clean=False)
    except (SyntaxError, ValueError, RecursionError):
        return None
    if found is None:
        return None
    # a raw string, in which what would end it is written otherwise
    return found.replace('\\"\\"\\"', '"""').replace("\\\\", "\\").strip() + "\n"


def hash_in(text: str) -> str | None:
    """The hash of spec and settings that the header names."""
    found = _HASH.search(text.split('"""', 1)[0])
    return found.group(1) if found else None
