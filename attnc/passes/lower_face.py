"""AttnSpec and Facts -> FacePlan: what the public functions of a module take, check and keep."""

from __future__ import annotations

from attnc.ir.expr import Dim, Role, Tensor, TensorDecl, walk
from attnc.ir.face import (
    Declared,
    FacePlan,
    Fixed,
    Kept,
    Learned,
    Live,
    Memory,
    Need,
    Offers,
    OwnDim,
)
from attnc.ir.facts import Factorized, Facts
from attnc.ir.reference import ReferencePlan
from attnc.ir.sizes import Size
from attnc.ir.spec import AttnSpec, Form, Layout
from attnc.passes.lower_reference import lower_reference

# all keys so far, where S alone is the number of new ones; no spec can have this name
SO_FAR = "(n + S)"
# words of the public functions that a spec may use too: the spec's tensors keep their names, the
# functions' own words, the sizes and the attributes give way
_OF_FUNCTIONS = frozenset(("torch", "math", "bias", "d_model", "capacity", "n", "factory"))
_OF_STATES = frozenset((
    "S", "z", "m", "k", "v", "live", "length", "room", "capacity", "held", "detach", "to", "select",
    "torch", "dataclasses", "property",
))  # fmt: skip
_OF_MODULES = frozenset((
    "T_destination", "add_module", "apply", "bfloat16", "buffers", "call_super_init", "children",
    "compile", "cpu", "cuda", "double", "dump_patches", "eval", "extra_repr", "float", "forward",
    "get_buffer", "get_extra_state", "get_parameter", "get_submodule", "half", "ipu", "modules",
    "load_state_dict", "mtia", "named_buffers", "named_children", "named_modules", "parameters",
    "named_parameters", "requires_grad_", "set_extra_state", "set_submodule", "share_memory",
    "register_buffer", "register_parameter", "register_module", "state_dict", "to", "to_empty",
    "train", "training", "type", "xpu", "zero_grad", "q_proj", "k_proj", "v_proj", "o_proj",
    "reset_parameters", "d_model", "sizes",
))  # fmt: skip
_SUMS = {Form.CHUNKWISE, Form.RECURRENT}


def lower_face(spec: AttnSpec, facts: Facts, kernels: bool = True) -> FacePlan:
    """The plan of the public functions; without kernels those that stand on the reference alone."""
    reference = lower_reference(spec, facts)
    factorization = facts.factorization
    sums = isinstance(factorization, Factorized) and bool(_SUMS & set(facts.form_names))
    memory = Memory.SUMS if sums else Memory.CACHE
    tensors = tuple(_declared(decl, memory) for decl in spec.tensors)
    channels = factorization.size if isinstance(factorization, Factorized) else Size.of(0)
    value = spec.value.type.shape[0]
    axes = (Size.of("B"), Size.of("H"), channels, value)
    dims = _dims(reference)
    params, buffers = _learned(tensors, Role.PARAM), _learned(tensors, Role.BUFFER)
    learned = {t.declared.decl.name for t in params + buffers}
    of_layer = {dim for t in params + buffers for size in t.declared.axes for dim in size.dims}
    of_layer |= value.dims
    return FacePlan(
        name=spec.name,
        memory=memory,
        offers=_offers(facts) if kernels and facts.form_names else (),
        layout=spec.layout,
        tensors=tensors,
        dims=dims,
        fixed=_fixed(spec),
        heads=spec.heads,
        kv_heads=spec.kv_heads,
        v_heads=spec.v_heads,
        d_k=spec.d_k,
        d_v=spec.d_v,
        absent=tuple(fact for fact in facts.forms if not fact.exists),
        lacks_lse=() if reference.has_lse else ("lse",),
        z=() if spec.normalizer is None else ("z",),
        channels=channels,
        value=value,
        state_axes=axes,
        needs=_needs(spec, axes, dims),
        kept=_of_last(reference, tensors) if sums else _of_all(tensors),
        live=() if sums else _live(reference),
        inputs=tuple(t for t in tensors if t.decl.name not in learned),
        params=params,
        buffers=buffers,
        layer_dims=tuple(d for d in dims if d.name in of_layer),
        reference=reference,
    )


def _offers(facts: Facts) -> tuple[Offers, ...]:
    step = Offers.STEP if facts.mask.implies_causal else Offers.NO_STEP
    return (Offers.ATTENTION, step, Offers.LAYER)


def _declared(decl: TensorDecl, memory: Memory) -> Declared:
    keys, rows, batch = (_axis(decl, dim) for dim in ("S", "L", "B"))
    new_keys = bool(keys) and not (rows and memory is Memory.CACHE)
    new, so_far = Size.of("S"), {"S": Size.of(SO_FAR)}
    axes = tuple(s if s == new and new_keys else _renamed(s, so_far) for s in decl.dims)
    return Declared(decl, axes, keys, rows, batch)


def _axis(decl: TensorDecl, dim: str) -> tuple[int, ...]:
    axis = decl.axis_of(dim)
    return () if axis is None else (axis,)


def _renamed(size: Size, names: dict[str, Size]) -> Size:
    total = Size.of(0)
    for monomial, coefficient in size.terms:
        product = Size((((), coefficient),))
        for atom in monomial:
            if isinstance(atom, str):
                product = product * names.get(atom, Size.of(atom))
            else:
                top, below = _renamed(atom.numerator, names), _renamed(atom.denominator, names)
                product = product * (top // below)
        total = total + product
    return total


def _dims(reference: ReferencePlan) -> tuple[OwnDim, ...]:
    names = {t.name for t in reference.tensors}
    return tuple(
        OwnDim(d.name, d.tensor, d.axis, free(d.name, names | _OF_FUNCTIONS))
        for d in reference.dims
    )


def free(word: str, taken: frozenset[str] | set[str]) -> str:
    """The word, or one that no spec can have written where it is taken."""
    return f"{word}__" if word in taken else word


def _fixed(spec: AttnSpec) -> tuple[Fixed, ...]:
    heads = 1 if spec.layout is Layout.BHLD else 2
    of_v = spec.kv_heads if spec.v_heads is None else spec.v_heads
    word = "kv_heads" if spec.v_heads is None else "v_heads"
    rows = (
        ("kv_heads", "k", heads, spec.kv_heads),
        (word, "v", heads, of_v),
        ("d_k", "q", 3, spec.d_k),
        ("d_v", "v", 3, spec.d_v),
    )
    return tuple(Fixed(w, t, axis, value) for w, t, axis, value in rows if value is not None)


def _needs(spec: AttnSpec, axes: tuple[Size, ...], dims: tuple[OwnDim, ...]) -> tuple[Need, ...]:
    """The sizes in the axes of a state, beside B and H."""
    needs = [
        Need("G", "kv_heads", spec.kv_heads),
        Need("d_k", "d_k", spec.d_k),
        Need("d_v", "d_v", spec.d_v),
        *(Need(d.name, d.keyword, None) for d in dims),
    ]
    read = {dim for size in axes for dim in size.dims}
    return tuple(need for need in needs if need.name in read)


def _of_all(tensors: tuple[Declared, ...]) -> tuple[Kept, ...]:
    """A cache holds what later rows may read: each tensor over the keys alone."""
    return tuple(
        Kept(t, free(t.decl.name, _OF_STATES), t.decl.dims, t.over_batch)
        for t in tensors
        if t.over_keys and not t.over_rows
    )


def _of_last(reference: ReferencePlan, tensors: tuple[Declared, ...]) -> tuple[Kept, ...]:
    """Sums hold the last value of the tensors of `same`."""
    found = []
    for t in tensors:
        if any(axis.tensor == t.decl for axis in reference.runs):
            axes = tuple(d for a, d in enumerate(t.decl.dims) if a not in t.over_keys)
            batch = (axes.index(Size.of("B")),) if Size.of("B") in axes else ()
            found.append(Kept(t, free(t.decl.name, _OF_STATES), axes, batch))
    return tuple(found)


def _live(reference: ReferencePlan) -> tuple[Live, ...]:
    if not reference.key_masks:
        return ()
    read: set[str] = set()
    for node in (n for f in reference.key_masks for n in walk(f)):
        if isinstance(node, Dim):
            read |= node.size.dims
        if isinstance(node, Tensor) and node.decl.axis_of("G") is not None:
            read |= {"G", "H"}
    return (Live(reference.key_masks, tuple(sorted(read))),)


def _learned(tensors: tuple[Declared, ...], role: Role) -> tuple[Learned, ...]:
    """Those of the layer. One whose size a call decides is given with the call instead."""
    of_calls = {"B", "L", "S", SO_FAR}
    return tuple(
        Learned(t, free(t.decl.name, _OF_MODULES))
        for t in tensors
        if t.decl.role is role and not any(size.dims & of_calls for size in t.axes)
    )
