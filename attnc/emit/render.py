"""ModulePlan -> the text of one Python module."""

from __future__ import annotations

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from attnc.emit.reference import render_reference
from attnc.ir.plan import ModulePlan
from attnc.ir.spec import Layout
from attnc.resources import folder
from attnc.version import __version__

_TO_BHLD = {Layout.BHLD: "{}", Layout.BLHD: "{}.transpose(1, 2)"}


def render(plan: ModulePlan) -> str:
    """The module's text: the spec, then the reference and the function that users call."""
    templates = str(folder("templates"))
    environment = Environment(
        loader=FileSystemLoader(templates),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )

    def bhld(name: str) -> str:
        return _TO_BHLD[plan.layout].format(name)

    environment.filters |= {
        "docstring": lambda text: text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"'),
        "bhld": bhld,
    }
    return environment.get_template("module.py.jinja").render(
        plan=plan, version=__version__, reference=render_reference(plan.reference, [templates])
    )
