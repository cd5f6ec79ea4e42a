"""Which specs have kernels, and what stands in the way of the others."""

from __future__ import annotations

from dataclasses import dataclass

from attnc.ir.expr import Dim, Expr, IndexName, RowName, reads, walk
from attnc.ir.facts import Factorized, Facts
from attnc.ir.sizes import Size
from attnc.ir.spec import AttnSpec, Form, Read
from attnc.passes.pairs import is_elementwise, product_of
from attnc.source import Span


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What a kernel cannot do yet, in the user's terms, and the place that asks for it."""

    reason: str
    span: Span


def find_obstacle(spec: AttnSpec, facts: Facts) -> Obstacle | None:
    """The first thing that keeps a legal spec from having kernels; None where it has them."""
    for clause, found in (
        ("similarity", _similarity(spec, facts)),
        ("decay", _decay(spec, facts)),
        ("update", "a delta update" if spec.beta is not None else None),
        ("read", "a row that reads the state before its own key" if _before(spec) else None),
        ("output", _output(spec.output)),
        ("mask", _mask(spec, facts)),
    ):
        if found is not None:
            return Obstacle(found, spec.span(clause))
    if spec.tensors:
        tensor = spec.tensors[0]
        return Obstacle(f"a declared tensor (`{tensor.name}`)", tensor.span or spec.span("name"))
    if not facts.form_names:
        return Obstacle("what no form computes", spec.span("mask"))
    return None


def _before(spec: AttnSpec) -> bool:
    return spec.read is Read.BEFORE


def _similarity(spec: AttnSpec, facts: Facts) -> str | None:
    found = facts.factorization
    states = {Form.CHUNKWISE, Form.RECURRENT} & set(facts.form_names)
    if isinstance(found, Factorized) and (states or product_of(facts.simplified) is None):
        size = spec.query.type.shape[0]
        if _longer(found.phi, RowName.Q, size) or _longer(found.psi, RowName.K, size):
            return "features that are longer than the row that they are made of"
    if Form.PARALLEL in facts.form_names:
        exponent = facts.exponent if spec.normalizer is not None else None
        pair = facts.simplified if exponent is None else exponent
        if product_of(pair) is None and not isinstance(facts.factorization, Factorized):
            return "a similarity that is no function of one product of a row of q and one of k"
        if exponent is not None and isinstance(facts.factorization, Factorized):
            return "a state with a running maximum"
    return None


def _decay(spec: AttnSpec, facts: Facts) -> str | None:
    if facts.channel_decay:
        return "a decay per channel"
    log = facts.log_decay
    if log is not None and reads(log, IndexName.KEY, IndexName.BATCH, RowName.K):
        return "a decay per token"
    return None


def _output(output: Expr) -> str | None:
    if reads(output, RowName.OWN_K, RowName.OWN_V):
        return "an output that reads the row's own key or value"
    return None


def _mask(spec: AttnSpec, facts: Facts) -> str | None:
    if facts.mask.same_factors:
        return "`same`"
    if not facts.mask.key_factors:
        return None
    if {Form.CHUNKWISE, Form.RECURRENT} & set(facts.form_names) or spec.decay is not None:
        return "a key mask beside a state or a decay"
    sizes = {str(n.size) for f in facts.mask.key_factors for n in walk(f) if isinstance(n, Dim)}
    # judged when the key enters, it would have to be remembered
    return "a key mask that reads a length" if sizes & {"L", "S"} else None


def _longer(expr: Expr, row: RowName, size: Size) -> bool:
    return not is_elementwise(expr, row) and expr.type.shape != (size,)
