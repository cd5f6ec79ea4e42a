"""Where the data folders are: beside the package in a checkout, inside it in a wheel."""

from pathlib import Path


def folder(name: str) -> Path:
    """The folder `grammar`, `templates` or `examples`."""
    package = Path(__file__).resolve().parent
    for parent in (package / "_data", package.parent):
        if (parent / name).is_dir():
            return parent / name
    raise FileNotFoundError(f"attnc's own folder {name}/ is missing: the installation is incomplete")
