"""AttnSpec and Facts -> FacePlan: what the public functions of a module take, check and keep."""

from __future__ import annotations

from attnc.ir.expr import Role, TensorDecl
from attnc.ir.face import Declared, FacePlan, Fixed, Learned, Memory, Offers, OwnDim, Run
from attnc.ir.facts import Factorized, Facts
from attnc.ir.reference import ReferencePlan
from attnc.ir.sizes import Size
from attnc.ir.spec import AttnSpec, Form, Layout
from attnc.passes.lower_reference import lower_reference

# all keys so far, where S alone is the number of new ones; no spec can have this name
SO_FAR = "(n + S)"
# words of the public functions that a spec may use too: the spec's tensors keep their names, the
# functions' own words and the sizes give way
_OF_FUNCTIONS = frozenset(("torch", "math", "bias", "d_model", "capacity", "n", "factory"))
_OF_MODULES = frozenset(
    """training forward parameters buffers modules children named_parameters named_buffers train
    eval half double float type to to_empty cpu cuda apply compile state_dict load_state_dict
    zero_grad requires_grad_ share_memory register_parameter register_buffer extra_repr
    reset_parameters q_proj k_proj v_proj o_proj d_model d_k d_v sizes""".split()
)
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
    dims = _dims(reference)
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
        has_lse=reference.has_lse,
        has_z=spec.normalizer is not None,
        channels=channels,
        value=value,
        needs=_needs(memory, channels, value),
        kept=() if sums else tuple(t for t in tensors if t.over_keys and not t.over_rows),
        runs=_runs(reference, tensors) if sums else (),
        params=_learned(tensors, Role.PARAM),
        buffers=_learned(tensors, Role.BUFFER),
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


def _needs(memory: Memory, channels: Size, value: Size) -> tuple[str, ...]:
    if memory is Memory.CACHE:
        return ("d_k", "d_v")
    return tuple(sorted((channels.dims | value.dims) - {"B", "H"}))


def _runs(reference: ReferencePlan, tensors: tuple[Declared, ...]) -> tuple[Run, ...]:
    by_name = {t.decl.name: t for t in tensors}
    return tuple(
        Run(
            by_name[axis.tensor.name],
            axis.tensor.axis_of("H") is not None or axis.tensor.axis_of("G") is not None,
            axis.tensor.axis_of("G") is not None,
        )
        for axis in reference.runs
    )


def _learned(tensors: tuple[Declared, ...], role: Role) -> tuple[Learned, ...]:
    """Those of the layer. One whose size a call decides is given with the call instead."""
    of_calls = {"B", "L", "S", SO_FAR}
    return tuple(
        Learned(t, free(t.decl.name, _OF_MODULES))
        for t in tensors
        if t.decl.role is role and not any(size.dims & of_calls for size in t.axes)
    )
