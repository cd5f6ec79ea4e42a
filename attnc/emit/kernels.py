"""KernelPlan -> the text of a module's kernels, forward and backward, and of what calls them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from attnc.emit.dialects import TORCH, TRITON
from attnc.emit.helpers import needed
from attnc.emit.printer import Names, show
from attnc.emit.reference import conversion, local, reference_names
from attnc.ir.expr import Dim as DimExpr
from attnc.ir.expr import Expr, Index, IndexName, RowName, Tensor, reads, substitute, walk
from attnc.ir.plan import (
    Constant,
    Fading,
    KernelPlan,
    Local,
    Operand,
    Parallel,
    Place,
    Weight,
)
from attnc.ir.reference import Local as Outer
from attnc.ir.sizes import Size
from attnc.ir.spec import Form
from attnc.ir.types import Kind

_START = """_jit = triton.jit if triton else lambda function: function
# inside kernels; the interpreter takes longer to enter such a function than to run most of them
_inline = (lambda function: function) if INTERPRETED else _jit
"""
_MEANING = {Weight.SOFTMAX: "the exponent", Weight.PLAIN: "the weight"}
LIVE = Outer.LIVE.read(Kind.BOOL)
_INDICES = {name: name.value for name in IndexName}


def _inner_names(plan: KernelPlan) -> Names:
    """In functions of one element or one pair."""
    atoms: dict[Expr, str] = {local.read(): local.value for local in Local}
    atoms |= {constant.read: constant.name for constant in plan.constants}
    atoms |= {x.read: x.name for p in plan.parallel for x in p.operands}
    plain = frozenset(c.read for c in plan.constants if not c.by_head)
    return Names(indices=_INDICES, atoms=atoms, plain=plain)


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


_BLOCKS = {Place.ROW: "[:, :, rows, None]", Place.KEY: "[:, :, None, keys]", Place.HEAD: ""}
_MAKERS = {
    Place.ROW: "_of_rows({}, B, H, L, {})",
    Place.KEY: "_of_keys({}, B, H, count, {})",
    Place.HEAD: "_of_heads({}, B, H, {})",
}
_DTYPES = {Kind.FLOAT: "computed", Kind.INT: "torch.int64", Kind.BOOL: "torch.bool"}


def _is_bool(x: Operand) -> bool:
    return x.value.type.kind is Kind.BOOL


def _made(x: Operand, text: str) -> str:
    return _MAKERS[x.place].format(text, _DTYPES[x.value.type.kind])


def _block(x: Operand) -> str:
    """The numbers of a block of pairs."""
    return f"{x.name}{'[:, :, None, None]' if x.place is Place.HEAD else _BLOCKS[x.place]}"


def _gates(text: str, shape: tuple[Size, ...]) -> str:
    """log a of each key, and of each channel where it has them."""
    if shape:
        return f"_key_rows({text}, B, H, count).to(computed)"
    return f"_of_keys({text}, B, H, count, computed)"


def _given(text: object) -> tuple[bool, ...]:
    return (True,) if text else ()


def _outer(plan: KernelPlan) -> list[Expr]:
    """What torch evaluates before the kernels."""
    d = plan.definition
    outer = [*d.key_masks, *(c.expr for c in d.rows), *(x.value for x in _operands(plan))]
    for rows in [*(p.rows for p in plan.parallel), *(s.rows for s in plan.sums)]:
        outer += [*rows.query, *rows.key]
    if _by_token(plan):
        outer += [*(decay.log_decay for decay in d.decays), *(same.at_key for same in d.same)]
    return outer


def _operands(plan: KernelPlan) -> list[Operand]:
    return [x for p in plan.parallel for x in p.operands]


def _by_token(plan: KernelPlan) -> tuple[bool, ...]:
    """Do decays differ from token to token?"""
    tokens = any(s.fading in (Fading.TOKEN, Fading.CHANNEL) for s in plan.sums)
    return _given(tokens or any(p.fade_slope for p in plan.parallel))


def _values(plan: KernelPlan) -> dict[str, object]:
    """What the templates read beside the plan."""
    auto = [form for form in plan.forms if form is not Form.RECURRENT]
    constants = "".join(f", {c.name}" for c in plan.constants)
    load = "".join(
        f"    {c.name} = tl.load({c.name} + h)\n" for c in plan.constants if c.by_head
    ).rstrip("\n")
    tensors = "".join(f"{local(t.name)}, " for t in plan.definition.tensors)
    return {
        "plan": plan,
        "constants": constants,
        "load_constants": load or "    # no constants of the head",
        "meaning": _MEANING,
        "tensor_names": tensors,
        "zs": lambda text: text if plan.divisor else "",
        "unpack": "state, z" if plan.divisor else "state",
        "outputs": "2" if plan.divisor else "1",
        "z_or_none": "z" if plan.divisor else "None",
        "judged": ", judged=None" if plan.definition.key_masks else "",
        "judgement": "None" if plan.sums else "judged",
        "cache": _given(not plan.sums),
        "choosing": () if plan.default else (True,),
        "recurrent": _given(Form.RECURRENT in plan.forms),
        "pairs": _given(Form.PARALLEL in auto and Form.CHUNKWISE in auto),
        "otherwise": plan.forms[-1].value if Form.CHUNKWISE not in auto else "chunkwise",
        **_prologue_values(plan),
        **_pair_values(plan, constants),
        **_sum_values(plan, constants),
    }


def _prologue_values(plan: KernelPlan) -> dict[str, object]:
    """Which parts of what surrounds the kernels there are."""
    d, outer = plan.definition, _outer(plan)
    after = [*d.output, *plan.divisor, *plan.gate]
    everything = [*outer, *after]
    made = {clause.row for clause in d.rows}
    own = (RowName.Q, RowName.K, RowName.V, RowName.OWN_K, RowName.OWN_V)
    names = any(
        isinstance(n, Index) or (isinstance(n, Tensor) and n.decl in d.tensors)
        for expr in after
        for n in walk(expr)
    )
    return {
        "prologue": _given(outer or names or any(reads(e, *own) for e in after)),
        "epilogue": _given(after),
        "reads_rows": _given(d.key_masks or any(reads(e, *own) for e in everything)),
        "masked": _given(any(n == LIVE for e in everything for n in walk(e)) or d.key_masks),
        "query_is_made": _given(RowName.Q in made),
        "key_is_made": _given(RowName.K in made or d.key_masks),
        "value_is_made": _given(RowName.V in made or d.key_masks),
        "by_token": _by_token(plan),
        "runs": _given(plan.sums and d.same),
    }


def _pair_values(plan: KernelPlan, constants: str) -> dict[str, object]:
    """Of the kernels of pairs: what pairs read beside the score."""
    if not plan.parallel:
        return {"extra": "", "more": ""}
    (p,) = plan.parallel
    names = "".join(f", {x.name}" for x in p.operands)
    fade = ", f" if p.fade_slope else ""
    faded = ("row_high", "row_low", "key_high", "key_low") if p.fade_slope else ()
    has = bool(p.operands or p.fade_slope)
    rows = [x for x in p.operands if x.slope and x.place is not Place.KEY]
    keys = [x for x in p.operands if x.slope and x.place is Place.KEY]
    of_f = ["f"] if p.fade_slope else []
    return {
        "sight_arguments": f"i, j, h{names}{constants}",
        "pair_arguments": f"i, j, h{names}{fade}{constants}",
        "f_place": 3 + len(p.operands),
        "slopes": [
            ("_slope", p.slope),
            *((f"_{x.name}_slope", e) for x in p.operands for e in x.slope),
            *(("_fade_slope", e) for e in p.fade_slope),
        ],
        "operand_pointers": "".join(
            f"p_{name}, " for name in (*(x.name for x in p.operands), *faded)
        ),
        "row_gradient_pointers": "".join(f"p_d{n}, " for n in [*(x.name for x in rows), *of_f]),
        "key_gradient_pointers": "".join(f"p_d{n}, " for n in [*(x.name for x in keys), *of_f]),
        "row_slopes": len(rows) + len(of_f),
        "key_slopes": len(keys) + len(of_f),
        "slope_list": _slope_list(p, rows, keys),
        "sloped": [(x, n, *_SUMMED[x.place]) for n, x in enumerate(p.operands) if x.slope],
        "extra": "extra, " if has else "",
        "extra_names": names[2:]
        + (", " if names else "")
        + ("row_fade, key_fade, " if p.fade_slope else ""),
        "extra_pointers": "*_pointers(extra), " if has else "",
        "more": ", *extra" if has else "",
        "more_slopes": ", *slopes" if has else "",
        "of_rows": "*of_rows, " if has else "",
        "of_keys": "*of_keys, " if has else "",
    }


_SUMMED = {
    Place.ROW: ("[:, :, rows]", "3"),
    Place.KEY: ("[:, :, keys]", "2"),
    Place.HEAD: ("", "(2, 3)"),
}


def _slope_list(p: Parallel, rows: list[Operand], keys: list[Operand]) -> list[str]:
    """Where the kernels' gradients of what the pairs read come from."""
    found = []
    for x in p.operands:
        if not x.slope:
            found.append("None")
        elif x.place is Place.KEY:
            found.append(f"of_keys[{keys.index(x)}]")
        else:
            end = ".sum(2)" if x.place is Place.HEAD else ""
            found.append(f"of_rows[{rows.index(x)}]{end}")
    return found + (["of_rows[-1]", "of_keys[-1]"] if p.fade_slope else [])


_OF_SCALARS = ("chunk_outputs", "chunk_value", "chunk_rows")
_OF_CHANNELS = ("channel_pairs", "channel_outputs", "channel_value", "channel_rows")


def _sum_values(plan: KernelPlan, constants: str) -> dict[str, object]:
    """Of the forms with a state: how it fades, and what that is called in kernels and in torch."""
    if not plan.sums:
        return {"fades": "", "of_runs": lambda text: "", "token": (), **_reading(plan.shift)}
    (s,) = plan.sums
    channel = s.fading is Fading.CHANNEL
    token = s.fading is Fading.TOKEN
    gated = token or channel
    runs = bool(plan.definition.same)

    def of_runs(text: str) -> str:
        return text if runs else ""

    fade = f"h{constants}"
    if token:
        fade = f"p_f + at{of_runs(', p_r + at, i_t')}"
    if channel:
        fade = f"o_c, m_c, C, p_f + at * C{of_runs(', p_r + at, i_t')}"
    column = "" if channel else "[:, None]"
    to = "last.to(q.dtype)"
    faded = s.fading is not Fading.NONE
    return {
        "fading_kind": s.fading.value,
        "fading": _given(faded and not channel),
        "launching": "channel" if channel else "scalar",
        "chunk_kernels": _OF_CHANNELS if channel else _OF_SCALARS,
        "token": _given(token),
        "by_token_text": lambda text: text if token else "",
        "of_runs": of_runs,
        "fade": fade,
        "fade_pointers": f"p_f, {of_runs('p_r, ')}" if gated else "",
        "run_pointers": of_runs("p_r, "),
        "fades": f"g, {of_runs('runs, ')}" if gated else "",
        "f_pointers": f"f, {of_runs('runs, ')}" if gated else "",
        "dfades": f"dg, {of_runs('None, ')}" if gated else "",
        "fades_at_keys": f", g[:, :, keys]{of_runs(', runs[:, :, keys]')}" if gated else "",
        "dg_at_keys": "dg[:, :, keys], " if gated else "",
        "floats": of_runs("x.is_floating_point()"),
        "at_chunk": ("at = i_bh * S + i_t * BT",) if gated else (),
        "at_token": (f"at{of_runs(', i_t')} = i_bh * S + t{of_runs(', t')}",) if gated else (),
        "row_is_inside": "m_i & m_j" if runs else "m_i",
        "to_rows": f"_fade_to_rows(o, live, {fade}){column}",
        "to_end": f"_fade_to_end(o, live, {fade}){column}",
        "whole": f"_fade_chunk(live, {fade})",
        "of_state": "[:, None]" if channel else "",
        "whole_cumulated": "g.double().cumsum(2)"
        if token
        else "_cumulated_torch(S, h, *constants)",
        "kept_state": f"_fade_state_torch(before, {to}[..., None])" if faded else "before",
        "kept_z": f"_fade_state_torch(before_z, {to})" if faded else "before_z",
        "before": _given(plan.shift),
        "after": _given(not plan.shift),
        "sum_offset": "first - start" if s.causal else "_ceil(count, _CHUNK) * _CHUNK",
        **_reading(plan.shift),
    }


def _reading(shift: int) -> dict[str, object]:
    """Which keys a row's state holds: those up to its own, or those before."""
    return {
        "shift": shift,
        "sees": "<" if shift else "<=",
        "read_steps": "o" if shift else "o + 1",
        "last_read": "(o - 1)" if shift else "o",
        "other_last_read": "(o_other - 1)" if shift else "o_other",
        "one_last_read": "(o_one - 1)" if shift else "o_one",
        "last_read_at": "at - 1" if shift else "at",
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
    inner, outer = _inner_names(plan), reference_names(plan.definition)
    outer = outer.also({Local.N.read(): "n", Local.LSE.read(): "lse"})

    def outer_text(expr: Expr) -> str:
        return show(expr, TORCH, outer)

    filters: dict[str, Callable[..., object]] = {
        "triton": lambda expr: show(expr, TRITON, inner),
        "torch": lambda expr: show(expr, TORCH, inner),
        "scoped": lambda expr: _scoped(show(expr, TORCH, inner)),
        "ref": outer_text,
        "local": local,
        "conversion": conversion,
        "given": _given,
        "placed": lambda xs, place: [x for x in xs if x.place.value == place],
        "sloped": lambda xs, *places: [x for x in xs if x.slope and x.place.value in places],
        "truth": lambda x: " != 0" if x.value.type.kind is Kind.BOOL else "",
        "made": lambda x: _made(x, outer_text(x.value)),
        "block": _block,
        "pointer": lambda x: f"{x.name}.to(torch.int8)" if _is_bool(x) else x.name,
        "gates": lambda d: _gates(outer_text(d.log_decay), d.log_decay.type.shape),
        "at": lambda expr, position: _plain_bound(expr, plan, position),
        "constant": _constant,
    }
    environment.filters |= filters
    text = environment.get_template("kernels/kernels.py.jinja").render(**_values(plan))
    files = ("torch/common.py", "triton/common.py", "triton/math.py")
    helpers = [needed(file, text).replace("@triton.jit", "@_inline") for file in files]
    whole = "\n\n\n".join([_START, *(h for h in helpers if h), text])
    return re.sub(r"[ ]+\n", "\n", whole)  # what an empty slot leaves at a line's end
