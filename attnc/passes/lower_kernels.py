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
from attnc.ir.facts import Factorized, Facts
from attnc.ir.ops import Op
from attnc.ir.plan import (
    Choice,
    Constant,
    Feature,
    KernelPlan,
    Local,
    Parallel,
    Range,
    Rows,
    Sums,
    Weight,
)
from attnc.ir.reference import Clause
from attnc.ir.sizes import Size
from attnc.ir.spec import Align, AttnSpec, Form
from attnc.ir.types import Kind
from attnc.passes.choose import thresholds
from attnc.passes.differentiate import differentiate
from attnc.passes.lower_reference import exponent_of
from attnc.passes.pairs import Product, is_elementwise, product_of
from attnc.passes.simplify import make, simplify

_I, _J = Index(IndexName.QUERY), Index(IndexName.KEY)
X, SCORE = Local.X.read(), Local.SCORE.read()


@dataclass(slots=True)
class _Parts:
    """The constants and features that the plan's expressions have needed so far."""

    constants: list[Constant] = field(default_factory=list)
    features: list[Feature] = field(default_factory=list)

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
    sums = _sums(spec, facts, parts)
    parallel = _parallel(spec, facts, parts) if Form.PARALLEL in facts.form_names else ()
    choice = thresholds(spec, facts)
    softmax = any(p.weight is Weight.SOFTMAX for p in parallel)
    return KernelPlan(
        precision=spec.precision,
        constants=tuple(parts.constants),
        features=tuple(parts.features),
        clauses=_clauses(spec),
        key_masks=facts.mask.key_factors,
        parallel=parallel,
        sums=sums,
        divisor=() if softmax else _divisor(spec),
        gate=_gate(spec) if softmax else (),
        output=() if isinstance(spec.output, Row) else (spec.output,),
        align=spec.align or Align.LOWER_RIGHT,
        heads=() if spec.heads is None else (spec.heads,),
        forms=facts.form_names,
        default=() if spec.form is None else (spec.form,),
        choice=Choice(choice.chunk, choice.recurrent_up_to, choice.share),
    )


def _clauses(spec: AttnSpec) -> tuple[Clause, ...]:
    clauses = (
        Clause("query", RowName.Q, spec.query),
        Clause("key", RowName.K, spec.key),
        Clause("value", RowName.V, spec.value),
    )
    return tuple(c for c in clauses if not (isinstance(c.expr, Row) and c.expr.name is c.row))


def _rows(parts: _Parts, names: tuple[str, str], query: Expr, key: Expr) -> Rows:
    phi, query_before = parts.feature(names[0], query, RowName.Q)
    psi, key_before = parts.feature(names[1], key, RowName.K)
    return Rows(query_before, key_before, phi, psi, query.type.shape[0])


def _sums(spec: AttnSpec, facts: Facts, parts: _Parts) -> tuple[Sums, ...]:
    if not {Form.CHUNKWISE, Form.RECURRENT} & set(facts.form_names):
        return ()
    assert isinstance(facts.factorization, Factorized)
    rows = _rows(parts, ("phi", "psi"), facts.factorization.phi, facts.factorization.psi)
    decays = () if facts.log_decay is None else (_fixed(facts.log_decay, parts),)
    causal = (spec.align,) if facts.mask.is_causal and spec.align is not None else ()
    return (Sums(rows, decays, causal),)


def _fixed(log_decay: Expr, parts: _Parts) -> Expr:
    """log a as a constant of the head."""
    return parts.constant(make(Op.MIN, call(Op.MUL, log_decay, 1.0), 0), by_head=True)


def _parallel(spec: AttnSpec, facts: Facts, parts: _Parts) -> tuple[Parallel, ...]:
    softmax = facts.exponent is not None and spec.normalizer is not None
    pair = facts.exponent if softmax and facts.exponent is not None else facts.simplified
    product = product_of(pair)
    # beside a state, keys are counted from the call's first one, positions from the sequence's
    counts = product is not None and reads(product.of_score, IndexName.QUERY, IndexName.KEY)
    if product is None or (counts and isinstance(facts.factorization, Factorized)):
        assert isinstance(facts.factorization, Factorized)
        product = Product(SCORE, facts.factorization.phi, facts.factorization.psi)
    rows = _rows(parts, ("phi_pair", "psi_pair"), product.query, product.key)
    value = simplify(product.of_score)
    faded = _faded(facts, parts)
    if softmax:
        slope = differentiate(value, SCORE)
        value = value if faded is None else call(Op.ADD, value, faded)
    else:
        value = value if faded is None else call(Op.MUL, value, call(Op.EXP, faded))
        slope = differentiate(value, SCORE)
    mask = facts.mask
    return (
        Parallel(
            weight=Weight.SOFTMAX if softmax else Weight.PLAIN,
            rows=rows,
            pair=parts.hoist(value),
            slope=parts.hoist(slope),
            mask=parts.hoist(call(Op.GE, _J, 0) if spec.mask is None else spec.mask),
            keys=_range(mask.first_key, mask.past_key, parts),
            queries=_range(mask.first_row, mask.past_row, parts),
        ),
    )


def _faded(facts: Facts, parts: _Parts) -> Expr | None:
    """log D_ij of a fixed decay; positions beyond the last key fade nothing more."""
    if facts.log_decay is None:
        return None
    last = make(Op.MIN, _I, call(Op.SUB, Dim(Size.of("S")), 1))
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
