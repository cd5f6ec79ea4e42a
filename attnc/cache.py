"""Modules compiled on demand: one file per content, version and options, imported once."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from threading import Lock
from types import ModuleType

from attnc.files import FileProblem, write_atomically
from attnc.pipeline import Options, compile_text
from attnc.resources import cache_folder, folder
from attnc.source import Source
from attnc.version import __version__

_importing = Lock()


def load_module(source: Source, options: Options) -> ModuleType:
    """The module of a spec, compiled if this was not done before.

    The file's name carries a hash, so a changed spec is another module in every process. Several
    processes may do this at once: each writes a file of its own and renames it.
    """
    stem = f"{_name_hint(source)}_{_key(source, options)}"
    with _importing:
        known = sys.modules.get(stem)
        if known is not None:
            return known
        path = cache_folder() / f"{stem}.py"
        if not path.exists():
            text = compile_text(source, options).source
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FileProblem(
                    f"{path.parent}: cannot be made: {error.strerror}; "
                    "the variable ATTNC_CACHE_DIR names another folder"
                ) from None
            write_atomically(path, text)
        return import_file(path, stem)


def import_file(path: Path, name: str) -> ModuleType:
    """Import a module from a file under a name of its own."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileProblem(f"{path}: this is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _name_hint(source: Source) -> str:
    """The attention's name, good enough for a file name; the hash is what counts."""
    found = re.search(r"^\s*attention\s+([A-Za-z_]\w{0,63})", source.text, re.MULTILINE | re.ASCII)
    return found.group(1) if found else "spec"


def _key(source: Source, options: Options) -> str:
    parts = (source.text, options, __version__, _compiler_fingerprint())
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@cache
def _compiler_fingerprint() -> tuple[tuple[str, int, int], ...]:
    """Size and date of the compiler's own files, so that a changed template counts too."""
    package = Path(__file__).parent
    files = [
        file
        for root, pattern in (
            (package, "*.py"),
            (folder("templates"), "*"),
            (folder("grammar"), "*"),
        )
        for file in root.rglob(pattern)
        if file.is_file() and "__pycache__" not in file.parts
    ]
    stats = [(file.name, file.stat()) for file in sorted(files)]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
