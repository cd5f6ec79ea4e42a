"""Where the data folders are (beside the package in a checkout, inside it in a wheel), and where
files are kept that can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def folder(name: str) -> Path:
    """The folder `grammar`, `templates` or `examples`."""
    package = Path(__file__).resolve().parent
    for parent in (package / "_data", package.parent):
        if (parent / name).is_dir():
            return parent / name
    raise FileNotFoundError(f"attnc's own folder {name}/ is missing: reinstall attnc")


def cache_folder() -> Path:
    """ATTNC_CACHE_DIR, or attnc/ where caches are kept. Raises RuntimeError where there is none."""
    chosen = os.environ.get("ATTNC_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "attnc"
