"""ModulePlan -> the text of one Python module."""

from __future__ import annotations

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from attnc.emit.face import IMPORTS, render_face
from attnc.emit.kernels import render_kernels
from attnc.emit.reference import render_reference
from attnc.ir.plan import ModulePlan
from attnc.resources import folder
from attnc.version import __version__

_OF_KERNELS = ("contextlib", "functools", "os")


def render(plan: ModulePlan) -> str:
    """The module's text: the spec, the reference, the kernels and what calls them, and the
    functions that users call."""
    templates = [str(folder("templates"))]
    environment = Environment(
        loader=FileSystemLoader(templates),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["docstring"] = _docstring
    kernels = [render_kernels(kernel, templates) for kernel in plan.kernels]
    text = environment.get_template("module.py.jinja").render(
        plan=plan,
        version=__version__,
        imports=sorted({*IMPORTS, "math", *(_OF_KERNELS if plan.kernels else ())}),
        reference=render_reference(plan.reference, templates, *kernels),
        texts=kernels,
        face=render_face(plan.face, templates),
    )
    return _spaced(text)


def _docstring(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def _spaced(text: str) -> str:
    """Two blank lines between functions, whatever a template left between its parts."""
    while "\n\n\n\n" in text:
        text = text.replace("\n\n\n\n", "\n\n\n")
    return text.rstrip("\n") + "\n"
