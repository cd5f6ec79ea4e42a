"""AttnSpec and Facts -> probes: the inputs on which a wrong kernel cannot look right.

Random inputs of round shapes hide faults: a removed window, a wrong head offset or padding that
was not cleared leave no trace there. So shapes lie on both sides of every constant of the mask and
of every tile's edge, sizes of rows differ and are no powers of two, some rows have no key, and
numbers come in the sizes that the spec's functions find hard. No torch here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from attnc.ir.expr import Dim, Expr, Number, TensorDecl, walk
from attnc.ir.facts import Factorized, Facts
from attnc.ir.ops import Op
from attnc.ir.spec import Align, AttnSpec, Layout
from attnc.ir.types import Kind
from attnc.verify.probe import Given, Job, Numbers, Probe, Strides, Task
from attnc.verify.verdict import Effort

TILE = 64  # rows of a tile or chunk where the spec does not say
LONGEST = 200  # of a quick probe; a larger constant of a mask is met by many keys and few rows
FURTHEST = 1100
MANY_HEADS = 4
_PLACES = {"B", "H", "G", "L", "S"}
# rows, and steps of all heads together, beyond which a quick verification leaves out the recurrent
# form, which is slow to interpret and has no tiles of rows whose edges a long probe could meet
MANY_ROWS, MANY_STEPS = 40, 100


def design(spec: AttnSpec, facts: Facts, effort: Effort) -> Job:
    """The probes of a spec."""
    probes = [*_shapes(spec), *_numbers(spec, facts), *_mask_edges(spec), *_states(spec, facts)]
    if effort is Effort.FULL:
        probes += [*_more(spec)]
    fitted = [_fitted(p, spec, facts) for p in probes]
    if effort is not Effort.FULL:
        fitted = [replace(p, recurrent=_is_short(p)) for p in fitted]
    return Job(
        blhd=spec.layout is Layout.BLHD,
        has_lse=facts.exponent is not None and spec.normalizer is not None,
        matrix_state=_has_matrix(facts),
        has_z=spec.normalizer is not None,
        steps=facts.mask.implies_causal,
        probes=tuple(fitted),
    )


def _is_short(probe: Probe) -> bool:
    return probe.rows <= MANY_ROWS or probe.batch * probe.heads * probe.rows <= MANY_STEPS


def _has_matrix(facts: Facts) -> bool:
    no_state = [f for f in facts.forms if f.form.value == "chunkwise" and not f.exists]
    return isinstance(facts.factorization, Factorized) and not no_state


def _tile(spec: AttnSpec) -> int:
    return spec.chunk or TILE


def build_job(job: Job, effort: Effort) -> Job:
    """The calls whose kernels are compiled for GPUs: every kernel, in rows that fill tiles and
    rows that do not, in short and long types of number."""
    like = next((p for p in job.probes if p.task is Task.STATE), None)
    like = like or next((p for p in job.probes if p.task is Task.VALUES), None)
    if like is None:
        return replace(job, probes=())
    kinds = [(16, 16, "float32"), (80, 128, "bfloat16")]
    if effort is Effort.FULL:
        kinds = [
            (d_k, d_v, dtype)
            for d_k, d_v in ((16, 16), (64, 64), (80, 128), (256, 256))
            for dtype in ("float32", "bfloat16", "float16")
        ]
    return replace(
        job,
        probes=tuple(
            replace(like, name="build", d_k=d_k, d_v=d_v, dtype=dtype, strides=Strides.PACKED)
            for d_k, d_v, dtype in kinds
        ),
    )


def with_tensors(job: Job, spec: AttnSpec, facts: Facts) -> Job:
    """The job with declared tensors of the sizes that its probes have."""
    return replace(
        job,
        probes=tuple(
            replace(p, tensors=tuple(_given(t, p, facts) for t in spec.tensors)) for p in job.probes
        ),
    )


def _shapes(spec: AttnSpec) -> Iterator[Probe]:
    """Both sides of a tile's edge, more keys than rows and fewer, rows of every awkward size."""
    t = _tile(spec)
    yield Probe("one token", 1, 1, 3, 2, batch=2)
    yield Probe(
        "ragged", 17, 17, 5, 19, batch=2, key_heads=1, value_heads=1, strides=Strides.SWAPPED
    )
    yield Probe("each alone", 7, 7, 5, 19, key_heads=1, value_heads=1, thorough=True)
    yield Probe("past a tile", t + 1, t + 1, 24, 40, strides=Strides.PADDED)
    yield Probe("more keys", t - 1, t + 9, 16, 16, heads=4, key_heads=2, value_heads=2)
    yield Probe(
        "fewer keys", 21, 9, 18, 7, batch=2, key_heads=1, value_heads=1, strides=Strides.STEPPED
    )
    yield Probe("three tiles", 2 * t + 3, 2 * t + 3, 72, 20, heads=1, key_heads=1, value_heads=1)
    yield Probe("no rows", 0, 5, 6, 3, task=Task.EMPTY)
    yield Probe("no keys", 5, 0, 6, 3, task=Task.EMPTY)


def _numbers(spec: AttnSpec, facts: Facts) -> Iterator[Probe]:
    """Large scores, features near 0, and 16 bits."""
    t = _tile(spec)
    if facts.exponent is not None:
        yield Probe("large scores", 37, 37, 20, 12, scale=12.0)
        yield Probe("huge scores", 19, 19, 20, 12, scale=60.0)
    if spec.normalizer is not None and facts.exponent is None:
        yield Probe("small features", 37, 37, 20, 12, scale=2.0, shift=-12.0)
    yield Probe("bfloat16", t + 6, t + 6, 20, 36, dtype="bfloat16")
    yield Probe("short bfloat16", 9, 9, 20, 36, dtype="bfloat16")
    yield Probe("float16", 33, 33, 36, 20, dtype="float16")


def _states(spec: AttnSpec, facts: Facts) -> Iterator[Probe]:
    """Going on from a state: with the gradient of both states, and in several calls."""
    if not (_has_matrix(facts) or facts.mask.implies_causal):
        return
    t = _tile(spec)
    yield Probe("from a state", 23, 23, 20, 12, past=19, task=Task.STATE)
    yield Probe(
        "from a state, past a tile", t + 5, t + 5, 12, 20, past=3, task=Task.STATE, heads=1,
        key_heads=1, value_heads=1,
    )  # fmt: skip
    # without a causal mask a row sees the keys of its own call and of earlier ones, no later ones
    if facts.mask.implies_causal and spec.align is Align.LOWER_RIGHT and not _reads_lengths(spec):
        pieces = (16, 1, t - 10, 1, 3)
        total = sum(pieces)
        yield Probe("several calls", total, total, 12, 20, task=Task.SPLIT, pieces=pieces)


def _reads_lengths(spec: AttnSpec) -> bool:
    """Do weights change with the number of keys or rows, which are fewer in a piece?"""
    clauses = (spec.query, spec.key, spec.value, spec.similarity, spec.decay, spec.output)
    return any(
        isinstance(node, Dim) and node.size.dims & {"L", "S"}
        for clause in clauses
        if clause is not None
        for node in walk(clause)
    )


def _mask_edges(spec: AttnSpec) -> Iterator[Probe]:
    """Both sides of every constant of the mask, for places counted from 0 and for distances."""
    for constant in mask_constants(spec.mask):
        keys = constant + 7
        rows = keys if keys <= LONGEST else 9
        yield Probe(f"mask at {constant}", rows, keys, 12, 20)
        if keys <= LONGEST and spec.align is Align.LOWER_RIGHT:
            yield Probe(f"mask at {constant}, last rows", 5, keys + 3, 12, 20)


def mask_constants(mask: Expr | None) -> tuple[int, ...]:
    """The sizes at which a mask may change, largest last; tiny and absurd ones need no probe."""
    if mask is None:
        return ()
    found = {
        ceil(abs(node.value))
        for node in walk(mask)
        if isinstance(node, Number) and not isinstance(node.value, bool) and _countable(node.value)
    }
    return tuple(sorted(found))


def _countable(value: float) -> bool:
    return 2 <= abs(value) <= FURTHEST


def _more(spec: AttnSpec) -> Iterator[Probe]:
    """What a full verification adds: every tile edge, and wide rows."""
    t = _tile(spec)
    for n in (2, 15, 16, t - 1, t, 2 * t - 1, 2 * t + 1, 200):
        yield Probe(f"length {n}", n, n, 10, 14)
    yield Probe("rows of 128", t + 1, t + 1, 128, 128)
    yield Probe("rows of 200 and 144", 35, 35, 200, 144)
    yield Probe("many rows, few keys", 2 * t + 1, 3, 10, 14)
    yield Probe("few rows, many keys", 3, 2 * t + 1, 10, 14)
    yield Probe("wide bfloat16", 2 * t + 1, 2 * t + 1, 64, 64, dtype="bfloat16")
    yield Probe("wide float16", 2 * t + 1, 2 * t + 1, 80, 128, dtype="float16")
    yield Probe("bfloat16 from a state", 35, 35, 64, 64, dtype="bfloat16", past=9, task=Task.STATE)


def _fitted(probe: Probe, spec: AttnSpec, facts: Facts) -> Probe:
    """The probe with what the spec fixes, and with the tensors that it declares."""
    heads = spec.heads or probe.heads
    # the probe's ratio, where the spec does not fix the count
    ratio = probe.heads // probe.key_heads
    shared = heads // ratio if heads % ratio == 0 else heads
    own = [spec.kv_heads or shared, spec.v_heads or spec.kv_heads or shared]
    d_k = spec.d_k or (probe.d_k + probe.d_k % 2 if _wants_pairs(spec) else probe.d_k)
    # many heads cost as much as a batch; the probe of shared heads has both
    batch = 1 if heads > MANY_HEADS and ratio == 1 else probe.batch
    sized = replace(
        probe,
        batch=batch,
        heads=heads,
        key_heads=own[0],
        value_heads=own[1],
        d_k=d_k,
        d_v=spec.d_v or probe.d_v,
    )
    return replace(sized, tensors=tuple(_given(t, sized, facts) for t in spec.tensors))


def _wants_pairs(spec: AttnSpec) -> bool:
    """Does something pair up the numbers of a row, so that their count must be even?"""
    clauses = (spec.query, spec.key, spec.similarity)
    return any(
        getattr(node, "op", None) in (Op.ROTATE, Op.SLICE) for c in clauses for node in walk(c)
    )


def _given(decl: TensorDecl, probe: Probe, facts: Facts) -> Given:
    sizes = {
        "B": probe.batch,
        "H": probe.heads,
        "G": probe.key_heads,
        "L": probe.rows,
        "S": probe.keys,
        "d_k": probe.d_k,
        "d_v": probe.d_v,
    }
    for dim in sorted({d for size in decl.dims for d in size.dims} - set(sizes)):
        sizes[dim] = 6  # a size that the spec names
    shape = tuple(size.evaluate(sizes) for size in decl.dims)
    is_matrix = not any(size.dims & _PLACES for size in decl.dims[-2:]) and len(shape) > 1
    scale = shape[-1] ** -0.5 if is_matrix else 1.0
    return Given(
        decl.name, _filled(decl, facts), shape, decl.axis_of("L"), decl.axis_of("S"), scale
    )


def _filled(decl: TensorDecl, facts: Facts) -> Numbers:
    if decl.kind is Kind.BOOL:
        return Numbers.BITS
    if decl.kind is Kind.INT:
        return Numbers.IDS
    decay = facts.log_decay
    gates = decay is not None and any(getattr(node, "decl", None) == decl for node in walk(decay))
    return Numbers.GATES if gates else Numbers.NORMAL
