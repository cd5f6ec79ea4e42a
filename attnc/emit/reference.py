"""ReferencePlan -> the text of the generated `_reference`."""

from __future__ import annotations

from collections.abc import Iterable

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from attnc.emit.dialects import TORCH
from attnc.emit.helpers import needed
from attnc.emit.printer import Names, show
from attnc.ir.expr import Expr, IndexName, RowName, TensorDecl
from attnc.ir.reference import Local, ReferencePlan
from attnc.ir.types import Kind

# what the text of a reference calls its own; a tensor or dim of that name is written `name__`
_OWN_WORDS = """
torch math range min max abs start first past before judged live count row at_i at_j weight
log_decay steps carried tail top exponent factor lse seen kept ends keeps ids fresh memory states
empty write written missing own_k own_v phi psi given last z t x
"""
RESERVED = frozenset(_OWN_WORDS.split())

_CONVERSIONS = {Kind.FLOAT: "to(dtype)", Kind.INT: "long()", Kind.BOOL: "bool()"}


def local(name: str) -> str:
    """What a tensor or dim of the spec is called inside the function."""
    return f"{name}__" if name in RESERVED else name


def reference_names(plan: ReferencePlan) -> Names:
    """The names of all leaves in the reference's templates."""
    dims = {d.name: local(d.name) for d in plan.dims}
    tensors = {t.name: local(t.name) for t in plan.tensors}
    tensors |= {f"local {name.value}": name.value for name in Local}
    return Names(
        indices={n: n.value for n in IndexName},
        rows={
            RowName.Q: "q",
            RowName.K: "k",
            RowName.V: "v",
            RowName.O: "o[:, :, :, None]",
            RowName.OWN_K: "own_k",
            RowName.OWN_V: "own_v",
        },
        tensors=tensors,
        runs={t.name: f"{t.name}__runs" for t in plan.tensors},
        places={
            (IndexName.QUERY, "L"): "row",
            (IndexName.QUERY, "S"): "at_i",
            (IndexName.KEY, "S"): "at_j",
            (IndexName.HEAD, "G"): "h // (H // G)",
        },
        dims=dims,
    )


def conversion(decl: TensorDecl) -> str:
    """The method by which a declared tensor takes the type that it is computed in."""
    return _CONVERSIONS[decl.kind]


def render_reference(plan: ReferencePlan, templates: Iterable[str], *others: str) -> str:
    """The function `_reference` as text, and the helpers that it and the other texts use."""
    names = reference_names(plan)
    environment = Environment(
        loader=FileSystemLoader(list(templates)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )

    def torch_text(expr: Expr) -> str:
        return show(expr, TORCH, names)

    environment.filters |= {"ref": torch_text, "local": local, "conversion": conversion}
    name = f"torch/reference_{plan.kernel.value}.py.jinja"
    text = environment.get_template(name).render(plan=plan)
    return f"{needed('torch/math.py', text, *others)}\n\n\n{text}"
