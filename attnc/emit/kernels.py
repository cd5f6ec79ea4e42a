"""KernelPlan -> the text of a module's kernels, forward and backward, and of what calls them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from attnc.emit.dialects import TORCH, TRITON
from attnc.emit.helpers import needed
from attnc.emit.printer import Names, show
from attnc.ir.expr import Dim as DimExpr
from attnc.ir.expr import Expr, Index, IndexName, RowName, substitute
from attnc.ir.plan import Constant, KernelPlan, Local, Weight
from attnc.ir.sizes import Size
from attnc.ir.spec import Align, Form
from attnc.ir.types import Kind

_START = """_jit = triton.jit if triton else lambda function: function
# inside kernels; the interpreter takes longer to enter such a function than to run most of them
_inline = (lambda function: function) if INTERPRETED else _jit
"""
_MEANING = {Weight.SOFTMAX: "the exponent", Weight.PLAIN: "the weight"}
_INDICES = {name: name.value for name in IndexName}


def _inner_names(plan: KernelPlan) -> Names:
    """In functions of one element or one pair."""
    atoms: dict[Expr, str] = {local.read(): local.value for local in Local}
    atoms |= {constant.read: constant.name for constant in plan.constants}
    plain = frozenset(c.read for c in plan.constants if not c.by_head)
    return Names(indices=_INDICES, atoms=atoms, plain=plain)


def _outer_names() -> Names:
    """Around the kernels, where rows lie along the last axis and numbers are [B, H, rows]."""
    rows = {RowName.Q: "q", RowName.K: "k", RowName.V: "v", RowName.O: "o"}
    return Names(
        indices=_INDICES,
        rows=rows,
        atoms={Local.N.read(): "n", Local.LSE.read(): "lse"},
    )


def _plain_bound(expr: Expr, plan: KernelPlan, position: str) -> str:
    """A bound for a position that is a Python number."""
    numbers: dict[Expr, Expr] = {c.read: DimExpr(Size.of(c.name)) for c in plan.constants}
    for index in (IndexName.QUERY, IndexName.KEY):
        numbers[Index(index)] = DimExpr(Size.of(position))
    return show(substitute(expr, numbers), TORCH, Names())


def _constant(constant: Constant) -> str:
    names = Names(indices={IndexName.HEAD: "h"})
    text = show(constant.value, TORCH, names)
    if constant.by_head:
        return f"_by_head({text}, H, q)"
    return f"{'int' if constant.value.type.kind is Kind.INT else 'float'}({text})"


def _scoped(text: str) -> tuple[bool, ...]:
    """Does the text read `dtype` and `device`?"""
    return (True,) if re.search(r"\b(dtype|device)=", text) else ()


def _values(plan: KernelPlan) -> dict[str, object]:
    """What the templates read beside the plan."""
    constants = "".join(f", {c.name}" for c in plan.constants)
    load = "".join(
        f"    {c.name} = tl.load({c.name} + h)\n" for c in plan.constants if c.by_head
    ).rstrip("\n")
    outer = [*plan.key_masks, *(c.expr for c in plan.clauses)]
    for rows in [*(p.rows for p in plan.parallel), *(s.rows for s in plan.sums)]:
        outer += [*rows.query, *rows.key]
    auto = [form for form in plan.forms if form is not Form.RECURRENT]
    causal = any(s.causal for s in plan.sums)
    first = "S - L" if plan.align is Align.LOWER_RIGHT else "start"
    return {
        "plan": plan,
        "constants": constants,
        "load_constants": load or "    # no constants of the head",
        "meaning": _MEANING,
        "zs": lambda text: text if plan.divisor else "",
        "unpack": "state, z" if plan.divisor else "state",
        "z_or_none": "z" if plan.divisor else "None",
        "judged": ", judged=None" if plan.key_masks else "",
        "choosing": () if plan.default else (True,),
        "prologue": (True,) if outer else (),
        "recurrent": (True,) if Form.RECURRENT in plan.forms else (),
        "pairs": (True,) if Form.PARALLEL in auto and Form.CHUNKWISE in auto else (),
        "otherwise": plan.forms[-1].value if Form.CHUNKWISE not in auto else "chunkwise",
        "keys": "start + count" if plan.sums else "count",
        "first": first,
        "first_key": "start" if plan.sums else "0",
        "sum_offset": "first - start" if causal else "_ceil(count, _CHUNK) * _CHUNK",
    }


def render_kernels(plan: KernelPlan, templates: Iterable[str]) -> str:
    """The kernels, their torch twins, the functions that PyTorch differentiates, and `_compute`."""
    environment = Environment(
        loader=FileSystemLoader(list(templates)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    inner, outer = _inner_names(plan), _outer_names()
    filters: dict[str, Callable[..., object]] = {
        "triton": lambda expr: show(expr, TRITON, inner),
        "torch": lambda expr: show(expr, TORCH, inner),
        "scoped": lambda expr: _scoped(show(expr, TORCH, inner)),
        "torch_row": lambda expr: show(expr, TORCH, outer),
        "at": lambda expr, position: _plain_bound(expr, plan, position),
        "constant": _constant,
    }
    environment.filters |= filters
    text = environment.get_template("kernels/kernels.py.jinja").render(**_values(plan))
    files = ("torch/common.py", "triton/common.py", "triton/math.py")
    helpers = [needed(file, text).replace("@triton.jit", "@_inline") for file in files]
    return "\n\n\n".join([_START, *(h for h in helpers if h), text])
