"""Puts grammar/, templates/ and examples/ into the wheel, where attnc/resources.py looks for them.

Everything else is in pyproject.toml. An editable install reads the folders where they are.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

DATA = ("grammar", "templates", "examples")


class BuildWithData(build_py):
    """The usual build, and the data folders beside the modules."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for name in DATA:
                target = Path(self.build_lib, "attnc", "_data", name)
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(name, target, ignore=shutil.ignore_patterns("__pycache__"))


setup(cmdclass={"build_py": BuildWithData})
