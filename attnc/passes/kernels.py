"""Which specs have kernels, and what stands in the way of the others."""

from __future__ import annotations

from dataclasses import dataclass

from attnc.ir.expr import Tensor, walk
from attnc.ir.facts import Factorized, Facts, Side
from attnc.ir.spec import AttnSpec, Form
from attnc.passes.pairs import product_of
from attnc.passes.sides import side_of
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
        ("update", "a delta update" if spec.beta is not None else None),
        ("mask", _mask(facts)),
    ):
        if found is not None:
            return Obstacle(found, spec.span(clause))
    if not facts.form_names:
        return Obstacle("what no form computes", spec.span("mask"))
    return None


def _similarity(spec: AttnSpec, facts: Facts) -> str | None:
    if Form.PARALLEL in facts.form_names:
        exponent = facts.exponent if spec.normalizer is not None else None
        pair = facts.simplified if exponent is None else exponent
        if product_of(pair) is None and not isinstance(facts.factorization, Factorized):
            return "a similarity that is no function of one product of a row of q and one of k"
        if exponent is not None and isinstance(facts.factorization, Factorized):
            return "a state with a running maximum"
    return None


def _mask(facts: Facts) -> str | None:
    read = [n for f in facts.mask.pair_factors for n in walk(f) if isinstance(n, Tensor)]
    at_pairs = any(side_of(n) is Side.PAIR for n in read)
    return "a mask that reads a tensor at a pair" if at_pairs else None
