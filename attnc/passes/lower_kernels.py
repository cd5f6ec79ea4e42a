"""AttnSpec and Facts -> KernelPlan."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    rebuild,
    substitute,
    walk,
)
from attnc.ir.facts import Factorized, Facts, Side
from attnc.ir.ops import Op
from attnc.ir.plan import (
    Choice,
    Constant,
    Fading,
    Feature,
    KernelPlan,
    Local,
    Operand,
    Parallel,
    Place,
    Range,
    Rows,
    Sums,
    Weight,
)
from attnc.ir.reference import ReferencePlan
from attnc.ir.sizes import Size
from attnc.ir.spec import AttnSpec, Form, Read
from attnc.ir.types import Kind
from attnc.passes.choose import thresholds
from attnc.passes.differentiate import differentiate
from attnc.passes.lower_reference import HAS_KEY, LIVE, exponent_of, lower_reference
from attnc.passes.pairs import Product, is_elementwise, product_of
from attnc.passes.sides import side_of
from attnc.passes.simplify import make, simplify

_I, _J = Index(IndexName.QUERY), Index(IndexName.KEY)
X, SCORE, FADE = Local.X.read(), Local.SCORE.read(), Local.FADE.read()
_PLACES = {Side.QUERY: Place.ROW, Side.KEY: Place.KEY, Side.CONSTANT: Place.HEAD}


@dataclass(slots=True)
class _Parts:
    """The constants and features that the plan's expressions have needed so far."""

    constants: list[Constant] = field(default_factory=list)
    features: list[Feature] = field(default_factory=list)
    operands: list[Operand] = field(default_factory=list)

    def gathered(self, expr: Expr) -> Expr:
        """The expression of a pair with what torch can make for each row, key or head in place of
        its computation."""
        if _is_made_before(expr):
            return self.operand(expr, LIVE if expr == LIVE else expr)
        children = tuple(self.gathered(child) for child in expr.children)
        return rebuild(expr, children) if children else expr

    def operand(self, expr: Expr, value: Expr) -> Expr:
        place = Place.KEY if expr == LIVE else _PLACES[side_of(expr)]
        for known in self.operands:
            if known.value == value:
                return known.read
        self.operands.append(Operand(f"x{len(self.operands)}", place, value, ()))
        return self.operands[-1].read

    def differentiated(self, pair: Expr) -> tuple[Operand, ...]:
        """The operands, each with the derivative of the pair by it."""

        def slope(x: Operand) -> tuple[Expr, ...]:
            if x.value.type.kind is not Kind.FLOAT:
                return ()
            return (self.hoist(simplify(differentiate(pair, x.read))),)

        return tuple(Operand(x.name, x.place, x.value, slope(x)) for x in self.operands)

    def hoist(self, expr: Expr) -> Expr:
        """The expression with what is constant in a call in place of its computation."""
        match expr:
            case Call(Op.DIV, (x, y)) if _is_constant(y) and not _is_constant(x):
                return self.hoist(call(Op.MUL, x, make(Op.DIV, 1, y)))
        if _is_worth_hoisting(expr):
            return self.constant(expr)
        children = tuple(self.hoist(child) for child in expr.children)
        return rebuild(expr, children) if children else expr

    def constant(self, expr: Expr, by_head: bool = False) -> Expr:
        """The constant of this value, known or new."""
        by_head = by_head or reads(expr, IndexName.HEAD)
        for known in self.constants:
            if (known.value, known.by_head) == (expr, by_head):
                return known.read
        self.constants.append(Constant(f"c{len(self.constants)}", expr, by_head))
        return self.constants[-1].read

    def feature(self, name: str, expr: Expr, row: RowName) -> tuple[str, tuple[Expr, ...]]:
        """The map's name, and what torch has to make of the row before."""
        before: tuple[Expr, ...] = ()
        if is_elementwise(expr, row):
            of_x = substitute(expr, {n: X for n in walk(expr) if isinstance(n, Row)})
            value = simplify(of_x)
        else:
            before, value = (expr,), X
        slope = differentiate(value, X)
        gradient = make(Op.MUL, Local.SLOPE.read(), slope, keep_shape=False)
        made = Feature(name, self.hoist(value), self.hoist(gradient))
        for known in self.features:
            if (known.value, known.gradient) == (made.value, made.gradient):
                return known.name, before
        self.features.append(made)
        return name, before


def _is_made_before(expr: Expr) -> bool:
    """Does torch make this number before the kernels? They make what reads i, j, h and sizes."""
    if expr in (LIVE, HAS_KEY):
        return True
    leaves = [n for n in walk(expr) if isinstance(n, Row | Tensor)]
    one = side_of(expr) is not Side.PAIR and not expr.type.shape
    return one and bool(leaves) and not any(n in (SCORE, FADE) for n in leaves)


def _is_constant(expr: Expr) -> bool:
    """Does it depend on sizes and the head alone?"""
    return not any(
        isinstance(n, Row | Tensor) or (isinstance(n, Index) and n.name is not IndexName.HEAD)
        for n in walk(expr)
    )


def _is_worth_hoisting(expr: Expr) -> bool:
    if isinstance(expr, Number | Index) or expr.type.shape or not _is_constant(expr):
        return False
    if expr.type.kind is Kind.BOOL:
        return False
    return not (expr.type.kind is Kind.INT and reads(expr, IndexName.HEAD))


def lower_kernels(spec: AttnSpec, facts: Facts) -> KernelPlan:
    """The plan of the kernels of a spec that passes/kernels.py finds no obstacle in."""
    parts = _Parts()
    definition = lower_reference(spec, facts)
    sums = _sums(spec, facts, definition, parts)
    parallel: tuple[Parallel, ...] = ()
    if Form.PARALLEL in facts.form_names:
        parallel = (_parallel(spec, facts, definition, parts),)
    choice = thresholds(spec, facts)
    softmax = any(p.weight is Weight.SOFTMAX for p in parallel)
    return KernelPlan(
        precision=spec.precision,
        definition=definition,
        constants=tuple(parts.constants),
        features=tuple(parts.features),
        parallel=parallel,
        sums=sums,
        divisor=() if softmax else _divisor(spec),
        gate=_gate(spec) if softmax else (),
        shift=int(spec.read is Read.BEFORE),
        forms=facts.form_names,
        default=() if spec.form is None else (spec.form,),
        choice=Choice(choice.chunk, choice.recurrent_up_to, choice.share),
    )


def _rows(parts: _Parts, names: tuple[str, str], query: Expr, key: Expr, masked: bool) -> Rows:
    """The two sides of a product. A feature of a hidden key is 0, whatever the feature of 0 is."""
    phi, query_before = parts.feature(names[0], query, RowName.Q)
    if masked and not isinstance(key, Row):
        key = call(Op.WHERE, LIVE, key, 0)
    psi, key_before = parts.feature(names[1], key, RowName.K)
    return Rows(query_before, key_before, phi, psi, query.type.shape[0])


def _sums(
    spec: AttnSpec, facts: Facts, definition: ReferencePlan, parts: _Parts
) -> tuple[Sums, ...]:
    if not {Form.CHUNKWISE, Form.RECURRENT} & set(facts.form_names):
        return ()
    assert isinstance(facts.factorization, Factorized)
    phi, psi = facts.factorization.phi, facts.factorization.psi
    rows = _rows(parts, ("phi", "psi"), phi, psi, bool(definition.key_masks))
    fading = fading_of(spec, facts)
    decays: tuple[Expr, ...] = ()
    if fading is Fading.FIXED and facts.log_decay is not None:
        decays = (_fixed(facts.log_decay, parts),)
    causal = (spec.align,) if facts.mask.is_causal and spec.align is not None else ()
    return (Sums(rows, fading, decays, causal),)


def fading_of(spec: AttnSpec, facts: Facts) -> Fading:
    """How a state fades. A hidden key fades nothing, so that with key masks tokens differ."""
    if facts.channel_decay:
        return Fading.CHANNEL
    if facts.mask.same_factors:
        return Fading.TOKEN
    if facts.log_decay is None:
        return Fading.NONE
    if facts.mask.key_factors or not _is_constant(facts.log_decay):
        return Fading.TOKEN
    return Fading.FIXED


def _fixed(log_decay: Expr, parts: _Parts) -> Expr:
    """log a as a constant of the head."""
    return parts.constant(make(Op.MIN, call(Op.MUL, log_decay, 1.0), 0), by_head=True)


def _parallel(spec: AttnSpec, facts: Facts, definition: ReferencePlan, parts: _Parts) -> Parallel:
    softmax = facts.exponent is not None and spec.normalizer is not None
    pair = facts.exponent if softmax and facts.exponent is not None else facts.simplified
    product = product_of(pair)
    # beside a state, keys are counted from the call's first one, positions from the sequence's
    counts = product is not None and reads(product.of_score, IndexName.QUERY, IndexName.KEY)
    if product is None or (counts and isinstance(facts.factorization, Factorized)):
        assert isinstance(facts.factorization, Factorized)
        product = Product(SCORE, facts.factorization.phi, facts.factorization.psi)
    rows = _rows(parts, ("phi_pair", "psi_pair"), product.query, product.key, False)
    value = simplify(parts.gathered(product.of_score))
    faded = _faded(spec, facts, parts)
    if faded is not None:
        value = call(Op.ADD, value, faded) if softmax else call(Op.MUL, value, call(Op.EXP, faded))
    by_token = faded == FADE
    mask = facts.mask
    return Parallel(
        weight=Weight.SOFTMAX if softmax else Weight.PLAIN,
        rows=rows,
        pair=parts.hoist(value),
        slope=parts.hoist(simplify(differentiate(value, SCORE))),
        fade_slope=(parts.hoist(simplify(differentiate(value, FADE))),) if by_token else (),
        mask=parts.hoist(parts.gathered(_visible(definition))),
        keys=_range(mask.first_key, mask.past_key, parts),
        queries=_range(mask.first_row, mask.past_row, parts),
        operands=parts.differentiated(value),
    )


def _visible(definition: ReferencePlan) -> Expr:
    """Which pairs exist."""
    factors = [*definition.pair_masks, *([LIVE] if definition.key_masks else [])]
    visible = factors[0] if factors else call(Op.GE, _J, 0)
    for factor in factors[1:]:
        visible = call(Op.AND, visible, factor)
    return visible


def _faded(spec: AttnSpec, facts: Facts, parts: _Parts) -> Expr | None:
    """log D_ij. Of a fixed decay; positions beyond the last key fade nothing more."""
    if facts.log_decay is None:
        return None
    if fading_of(spec, facts) is not Fading.FIXED:
        return FADE
    last = make(Op.MIN, _I, call(Op.SUB, Dim(Size.of("S")), 1))
    if spec.read is Read.BEFORE:
        last = make(Op.MIN, call(Op.SUB, _I, 1), call(Op.SUB, Dim(Size.of("S")), 1))
    steps = make(Op.MAX, call(Op.SUB, last, _J), 0)
    return call(Op.MUL, _fixed(facts.log_decay, parts), steps)


def _range(first: Expr | None, past: Expr | None, parts: _Parts) -> Range:
    def usable(bound: Expr | None) -> tuple[Expr, ...]:
        if bound is None or bound.type.kind is not Kind.INT or reads(bound, IndexName.HEAD):
            return ()
        return (parts.hoist(bound),)

    return Range(usable(first), usable(past))


def _divisor(spec: AttnSpec) -> tuple[Expr, ...]:
    norm = spec.normalizer
    if norm is None:
        return ()
    n = Local.N.read()
    if norm.eps is not None:
        return (call(Op.ADD, n, norm.eps),)
    if norm.floor is not None:
        return (call(Op.MAX, call(Op.ABS, n), norm.floor),)
    return (n,)


def _gate(spec: AttnSpec) -> tuple[Expr, ...]:
    """n / N(n) of a softmax, from the logarithm of n."""
    norm, lse = spec.normalizer, Local.LSE.read()
    assert norm is not None
    if norm.eps is not None and norm.eps != Number(0):
        return (call(Op.SIGMOID, call(Op.SUB, lse, exponent_of(norm.eps))),)
    if norm.floor is not None and norm.floor != Number(0):
        return (call(Op.EXP, call(Op.MIN, call(Op.SUB, lse, exponent_of(norm.floor)), 0)),)
    return ()
