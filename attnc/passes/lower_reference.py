"""AttnSpec and Facts -> ReferencePlan: the definition as the generated `reference` computes it."""

from __future__ import annotations

from attnc.ir.expr import (
    Call,
    Dim,
    Expr,
    Index,
    IndexName,
    Number,
    Row,
    RowName,
    Tensor,
    call,
    reads,
    transform,
    walk,
)
from attnc.ir.facts import Factorized, Facts
from attnc.ir.ops import COMPARISONS, INF, Op
from attnc.ir.reference import (
    Axis,
    Clause,
    Decay,
    Delta,
    DimSource,
    Kernel,
    Local,
    ReferencePlan,
    Same,
    State,
)
from attnc.ir.sizes import Size
from attnc.ir.spec import Align, AttnSpec, Form, Read
from attnc.ir.types import Kind

LIVE, MASK = Local.LIVE.read(Kind.BOOL), Local.MASK.read(Kind.BOOL)
_I, _J = Index(IndexName.QUERY), Index(IndexName.KEY)
# whether the row stands at a key
HAS_KEY = call(Op.AND, call(Op.GE, _I, 0), call(Op.LT, _I, Dim(Size.of("S"))))


def lower_reference(spec: AttnSpec, facts: Facts) -> ReferencePlan:
    """The plan of the reference. Raises ValueError for a delta whose similarity is no product."""
    key_masks = tuple(f for f in factors(spec.mask) if not reads(f, IndexName.QUERY))
    pairs = [f for f in factors(spec.mask) if reads(f, IndexName.QUERY)]
    if spec.read is Read.BEFORE:
        pairs.append(call(Op.LT, _J, _I))
    clear = bool(key_masks)
    same = tuple(s for f in pairs for s in _same(f))
    decays = _decays(spec, facts, clear)
    delta = spec.beta is not None
    exponent, weight = (None, Number(0)) if delta else _weight(spec, facts, clear)
    softmax = exponent is not None and spec.normalizer is not None
    kernel = Kernel.SOFTMAX if softmax else Kernel.WEIGHTS
    if delta:
        kernel = Kernel.DELTA if facts.mask.is_causal else Kernel.DELTA_ROWS
    return ReferencePlan(
        kernel=kernel,
        tensors=spec.tensors,
        heads=() if spec.heads is None else (spec.heads,),
        dims=_dims(spec),
        first=_first(spec),
        placed=(Local.FIRST,) if spec.align is Align.UPPER_LEFT else (),
        runs=_axes(spec, lambda read: read.runs),
        may_be_empty=_axes(spec, _is_at_row),
        key_masks=tuple(inside(f) for f in key_masks),
        pair_masks=tuple(inside(f) for f in pairs),
        rows=_rows(spec, clear),
        decays=decays,
        exponent=() if exponent is None else (exponent,),
        bound=_bound(spec),
        weight=weight,
        divisor=_divisor(spec, softmax),
        has_lse=softmax and facts.exponent is not None,
        states=() if delta else _states(spec, facts, decays, same, softmax),
        deltas=_delta(spec, facts, clear) if delta else (),
        same=same,
        own=_own(spec),
        output=() if isinstance(spec.output, Row) else (spec.output,),
    )


def _own(spec: AttnSpec) -> tuple[RowName, ...]:
    """The rows whose value at the row's own position `output` reads."""
    pairs = ((RowName.OWN_K, RowName.K), (RowName.OWN_V, RowName.V))
    return tuple(row for own, row in pairs if reads(spec.output, own))


def _first(spec: AttnSpec) -> Expr:
    if spec.align is Align.LOWER_RIGHT:
        return call(Op.SUB, Dim(Size.of("S")), Dim(Size.of("L")))
    local = Local.FIRST if spec.align is Align.UPPER_LEFT else Local.START
    return local.read(Kind.INT)


def factors(mask: Expr | None) -> tuple[Expr, ...]:
    """The factors of a conjunction."""
    match mask:
        case None:
            return ()
        case Call(Op.AND, (left, right)):
            return factors(left) + factors(right)
    return (mask,)


def inside(expr: Expr) -> Expr:
    """Comparisons that read a tensor over the keys at a position without a key become false."""

    def rule(node: Expr) -> Expr:
        if not (isinstance(node, Call) and node.op in COMPARISONS):
            return node
        if not any(isinstance(n, Tensor) and _is_at_row(n) for n in walk(node)):
            return node
        return call(Op.AND, node, HAS_KEY)

    return transform(expr, rule)


def _is_at_row(read: Tensor) -> bool:
    sizes = read.decl.dims
    return any(a == _I and s == Size.of("S") for a, s in zip(read.axes, sizes, strict=True))


def _same(factor: Expr) -> tuple[Same, ...]:
    match factor:
        case Call(Op.EQ, (Tensor(runs=True) as one, Tensor(runs=True) as other)):
            row, key = (one, other) if reads(one, IndexName.QUERY) else (other, one)
            return (Same(key, row, HAS_KEY),)
    return ()


def _expressions(spec: AttnSpec) -> tuple[Expr, ...]:
    norm = spec.normalizer
    scalars = () if norm is None else (norm.eps, norm.floor)
    parts = (spec.query, spec.key, spec.value, spec.similarity, spec.mask, spec.decay, spec.beta)
    return tuple(p for p in (*parts, spec.output, *scalars) if p is not None)


def _axes(spec: AttnSpec, wanted: object) -> tuple[Axis, ...]:
    assert callable(wanted)
    found: dict[str, Axis] = {}
    for part in _expressions(spec):
        for node in walk(part):
            if isinstance(node, Tensor) and wanted(node):
                axis = node.decl.axis_of("S")
                assert axis is not None
                found[node.decl.name] = Axis(node.decl, axis)
    return tuple(found.values())


def _dims(spec: AttnSpec) -> tuple[DimSource, ...]:
    """The spec's own dims, each from the first axis that has it as its size."""
    known = {"B", "H", "G", "L", "S", "d_k", "d_v"}
    found: list[DimSource] = []
    for decl in spec.tensors:
        for axis, size in enumerate(decl.dims):
            name = str(size)
            if size == Size.of(name) and name not in known:
                known.add(name)
                found.append(DimSource(name, decl, axis))
    return tuple(found)


def _cleared(expr: Expr, clear: bool) -> Expr:
    """The expression where hidden keys' tensors, and rows made from them, are 0."""

    def rule(node: Expr) -> Expr:
        match node:
            case Tensor() if node.type.kind is Kind.FLOAT and reads(node, IndexName.KEY):
                return call(Op.WHERE, LIVE, node, 0)
            case Call(Op.DOT, (x, y)):
                return call(Op.DOT, *(_cleared_row(r) for r in (x, y)))
        return node

    return transform(expr, rule) if clear else expr


def _cleared_row(row: Expr) -> Expr:
    of_keys = reads(row, IndexName.KEY, RowName.K, RowName.V)
    plain = isinstance(row, Row | Tensor) or reads(row, IndexName.QUERY, RowName.Q)
    return call(Op.WHERE, LIVE, row, 0) if of_keys and not plain else row


def _of_live(expr: Expr, clear: bool) -> Expr:
    """The expression over all keys, 0 at hidden ones."""
    if not clear and expr.type.shape and reads(expr, RowName.K, RowName.V):
        return expr  # has all its axes
    return call(Op.WHERE, LIVE, _cleared(expr, clear), 0)


def _rows(spec: AttnSpec, clear: bool) -> tuple[Clause, ...]:
    clauses = [
        Clause("query", RowName.Q, spec.query),
        Clause("key", RowName.K, _of_live(spec.key, clear)),
        Clause("value", RowName.V, _of_live(spec.value, clear)),
    ]
    written = (spec.query, spec.key, spec.value)
    return tuple(
        c
        for c, e in zip(clauses, written, strict=True)
        if not (isinstance(e, Row) and e.name is c.row)
    )


def _decays(spec: AttnSpec, facts: Facts, clear: bool) -> tuple[Decay, ...]:
    if spec.decay is None:
        return ()
    log = facts.log_decay if facts.log_decay is not None else call(Op.LOG, spec.decay)
    log = call(Op.CLAMP, log, -INF, 0)
    each = Local.LOG_DECAY.read(shape=log.type.shape)
    before = call(Op.LE, _J, _last(spec))
    return (Decay(_of_live(log, clear), call(Op.WHERE, before, each, 0)),)


def _last(spec: AttnSpec) -> Expr:
    """The last token that a row's state holds."""
    return call(Op.SUB, _I, 1) if spec.read is Read.BEFORE else _I


def exponential(expr: Expr) -> tuple[Expr | None, Expr]:
    """e and f with expr = exp(e) * f; e is None where no factor is an exponential."""
    match expr:
        case Call(Op.EXP, (x,)):
            return x, Number(1)
        case Call(Op.MUL, (x, y)):
            (e, f), (g, w) = exponential(x), exponential(y)
            return _combine(Op.ADD, e, g), f if w == Number(1) else w if f == Number(1) else call(
                Op.MUL, f, w
            )
        case Call(Op.DIV, (x, y)):
            (e, f), (g, w) = exponential(x), exponential(y)
            return _combine(Op.SUB, e, g), f if w == Number(1) else call(Op.DIV, f, w)
        case Call(Op.POW, (Call(Op.EXP, (x,)), n)):
            return call(Op.MUL, n, x), Number(1)
    return None, expr


def _combine(op: Op, left: Expr | None, right: Expr | None) -> Expr | None:
    if right is None:
        return left
    if left is None:
        return call(Op.NEG, right) if op is Op.SUB else right
    return call(op, left, right)


def _weight(spec: AttnSpec, facts: Facts, clear: bool) -> tuple[Expr | None, Expr]:
    """The exponent, where it is taken apart, and the weight (or the factor beside it)."""
    similarity = _cleared(facts.simplified, clear)
    if similarity.type.kind is Kind.INT:
        similarity = call(Op.MUL, similarity, 1.0)
    decay = Local.DECAY.read()
    if facts.channel_decay:
        assert isinstance(facts.factorization, Factorized)
        phi, psi = facts.factorization.phi, _cleared(facts.factorization.psi, clear)
        per_channel = Local.FADED.read(shape=phi.type.shape)
        weight = call(Op.SUM, call(Op.MUL, call(Op.MUL, phi, per_channel), psi))
        return None, call(Op.WHERE, MASK, weight, 0)
    exponent, factor = exponential(similarity)
    if exponent is not None and spec.normalizer is not None:
        exponent = exponent if spec.decay is None else call(Op.ADD, exponent, decay)
        factor = factor if isinstance(factor, Number) else call(Op.WHERE, MASK, factor, 0)
        return call(Op.WHERE, MASK, exponent, -INF), factor
    if spec.decay is not None:
        similarity = call(Op.MUL, similarity, Local.FADED.read())
    return None, call(Op.WHERE, MASK, similarity, 0)


def _bound(spec: AttnSpec) -> Expr:
    """The exponent taken out is at least the log of eps or floor."""
    norm = spec.normalizer
    least = None if norm is None else norm.eps or norm.floor
    if least is None or least == Number(0):
        return Number(-INF)
    return exponent_of(least)


def exponent_of(expr: Expr) -> Expr:
    """log of an expression."""
    match expr:
        case Call(Op.EXP, (x,)):
            return x
        case Number(0):
            return Number(-INF)
    return call(Op.LOG, expr)


def _divisor(spec: AttnSpec, softmax: bool) -> tuple[Expr, ...]:
    norm = spec.normalizer
    if norm is None:
        return ()
    n = Local.N.read()

    def scaled(x: Expr) -> Expr:
        if not softmax:
            return x
        return call(Op.EXP, call(Op.SUB, exponent_of(x), Local.TOP.read()))

    if norm.eps is not None:
        return (call(Op.ADD, n, scaled(norm.eps)),)
    if norm.floor is not None:
        return (call(Op.MAX, call(Op.ABS, n), scaled(norm.floor)),)
    return (n,)


def _states(
    spec: AttnSpec,
    facts: Facts,
    decays: tuple[Decay, ...],
    same: tuple[Same, ...],
    softmax: bool,
) -> tuple[State, ...]:
    carries = any(form in facts.form_names for form in (Form.CHUNKWISE, Form.RECURRENT))
    if not (carries and isinstance(facts.factorization, Factorized)):
        return ()
    past, written = facts.factorization.phi, facts.factorization.psi
    for decay in decays:
        shape = decay.log_decay.type.shape
        past = call(Op.MUL, past, Local.CARRIED.read(shape=shape))
        written = call(Op.MUL, written, Local.TAIL.read(shape=shape))
    if softmax:  # as the weights, which stand beside it
        past = call(Op.MUL, past, call(Op.EXP, call(Op.NEG, Local.TOP.read())))
    return (
        State(
            past=past,
            written=call(Op.WHERE, Local.KEPT.read(Kind.BOOL), _cleared(written, True), 0),
            decays=tuple(Local.LOG_DECAY.read(shape=d.log_decay.type.shape) for d in decays),
            seen=tuple(inside(call(Op.EQ, s.at_row, 0)) for s in same),
            kept=tuple(call(Op.EQ, s.at_key, _at_end(s.at_key)) for s in same),
            ends=tuple(call(Op.EQ, _at_end(s.at_key), 0) for s in same),
        ),
    )


def _at_end(read: Expr) -> Expr:
    assert isinstance(read, Tensor)
    axes = tuple(Number(-1) if a == _J else a for a in read.axes)
    return Tensor(read.decl, axes, runs=True)


def _delta(spec: AttnSpec, facts: Facts, clear: bool) -> tuple[Delta, ...]:
    if not isinstance(facts.factorization, Factorized):
        raise ValueError("delta needs a similarity that is one product")
    assert spec.beta is not None
    phi, psi = facts.factorization.phi, facts.factorization.psi
    return (Delta(phi, _of_live(psi, clear), _of_live(spec.beta, clear), _last(spec)),)
