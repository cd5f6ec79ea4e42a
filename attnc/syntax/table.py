"""The parser's table: built from the grammar once per machine (0.1 s), then read from the cache."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from lark import Lark, __version__

from attnc.resources import cache_folder


def parser(grammar: str, starts: Sequence[str]) -> Lark:
    """An LALR parser for a grammar. A cache that cannot be read or written only costs time."""
    key = repr((grammar, tuple(starts), __version__, sys.version_info[:2]))
    name = f"grammar_{hashlib.sha256(key.encode()).hexdigest()[:16]}.pickle"
    try:
        file = cache_folder() / name
        return Lark.load(io.BytesIO(file.read_bytes()))
    except (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError, KeyError):
        pass  # not there yet, or cut off
    # the basic lexer puts an error where it is: the contextual one reads a keyword as a name
    built = Lark(
        grammar, parser="lalr", lexer="basic", start=list(starts), propagate_positions=True
    )
    _keep(built, name)
    return built


def _keep(built: Lark, name: str) -> None:
    buffer = io.BytesIO()
    built.save(buffer)
    try:
        file = cache_folder() / name
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(f"{file}.{os.getpid()}.{time.time_ns()}")
        temporary.write_bytes(buffer.getvalue())
        os.replace(temporary, file)
    except (OSError, RuntimeError):
        return
