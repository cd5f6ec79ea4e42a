"""FacePlan -> the text of a module's public functions, which stands at its end."""

from __future__ import annotations

from collections.abc import Iterable
from math import lcm

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from attnc.emit.dialects import TORCH
from attnc.emit.helpers import needed
from attnc.emit.printer import show
from attnc.emit.reference import local, reference_names
from attnc.ir.expr import Expr
from attnc.ir.face import Declared, FacePlan, Learned, Memory
from attnc.ir.sizes import FloorDiv, Size
from attnc.ir.spec import Layout

# what the header of a module with this text imports beside torch
IMPORTS = ("dataclasses", "difflib")

_TO_BHLD = {Layout.BHLD: "{}", Layout.BLHD: "{}.transpose(1, 2)"}
_FROM_BLHD = {Layout.BHLD: "{}.transpose(1, 2)", Layout.BLHD: "{}"}
_AXES = {Layout.BHLD: "BHLd", Layout.BLHD: "BLHd"}
_SHAPES = {Layout.BHLD: "[B, {}, {}, {}]", Layout.BLHD: "[B, {1}, {0}, {2}]"}
_NOTES = {Memory.SUMS: ", and L is at most S", Memory.CACHE: ""}
_SMALL = 0.02  # the spread of a param's random start


def render_face(plan: FacePlan, templates: Iterable[str]) -> str:
    """State, the checks, `init_state`, `reference`; and where the module has kernels `attention`,
    `step` and the layer."""
    environment = Environment(
        loader=FileSystemLoader(list(templates)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    names = reference_names(plan.reference)

    def torch_text(expr: Expr) -> str:
        return show(expr, TORCH, names)

    def bhld(name: str) -> str:
        return _TO_BHLD[plan.layout].format(name)

    def from_blhd(name: str) -> str:
        return _FROM_BLHD[plan.layout].format(name)

    def rows(heads: str, rows: str, size: str | Size) -> str:
        return _SHAPES[plan.layout].format(heads, rows, size)

    used = {t.decl.name for t in plan.tensors} | {d.keyword for d in plan.dims}

    def own(word: str) -> str:
        return f"{word}__" if word in used else word

    environment.filters |= {
        "ref": torch_text,
        "local": local,
        "bhld": bhld,
        "from_blhd": from_blhd,
        "own": own,
        "size": size_text,
        "shape": shape_text,
        "axes": axes_text,
        "step_axes": step_axes_text,
        "words": _words,
        "initial": _initial,
        "quoted": repr,
    }
    environment.globals |= {
        "rows": rows,
        "note": _NOTES[plan.memory],
        "rows_axis": _AXES[plan.layout].index("L"),
        "order": _AXES[plan.layout],
    }
    parts = [f"state_{plan.memory.value}", "checks", f"call_{plan.memory.value}", "reference"]
    parts += [offer.value for offer in plan.offers]
    texts = [
        environment.get_template(f"face/{part}.py.jinja").render(plan=plan).strip()
        for part in parts
    ]
    helpers = [needed(f"face/{file}.py", *texts) for file in ("checks", "states")]
    return "\n\n\n".join([*helpers, *texts]) + "\n"


def size_text(size: Size) -> str:
    """A size as Python, over the sizes by name in `n`."""
    scale = lcm(*(c.denominator for _, c in size.terms))
    terms = []
    for monomial, coefficient in size.terms:
        factors = [_atom(a) for a in monomial]
        count = int(coefficient * scale)
        if count != 1 or not factors:
            factors.insert(0, str(count))
        terms.append(" * ".join(factors))
    text = " + ".join(terms).replace("+ -", "- ") or "0"
    return text if scale == 1 else f"({text}) // {scale}"


def _atom(atom: str | FloorDiv) -> str:
    if isinstance(atom, str):
        return f'n["{atom}"]'
    return f"(({size_text(atom.numerator)}) // ({size_text(atom.denominator)}))"


def shape_text(axes: tuple[Size, ...]) -> str:
    """A shape as Python."""
    inside = ", ".join(size_text(size) for size in axes)
    return f"({inside},)" if len(axes) == 1 else f"({inside})"


def axes_text(axes: tuple[Size, ...]) -> str:
    """A shape as people write it."""
    return "[" + ", ".join(str(size) for size in axes) + "]"


def step_axes_text(declared: Declared) -> str:
    """The shape of a tensor of one token."""
    kept = (s for a, s in enumerate(declared.axes) if a not in declared.in_a_step)
    return axes_text(tuple(kept))


def _words(axes: tuple[Size, ...]) -> str:
    """One letter an axis."""
    return "".join(str(size) for size in axes)


def _initial(learned: Learned) -> str:
    """How a param starts."""
    start = learned.declared.decl.initial
    if start is None:
        return f"normal_(self.{learned.attribute}, std={_SMALL})"
    return f"constant_(self.{learned.attribute}, {start!r})"
