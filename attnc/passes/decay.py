"""The decay: log a, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

from attnc.diagnostics import Diagnostic
from attnc.ir.expr import Expr, IndexName, reads
from attnc.ir.facts import Factorized, MaskFacts, NotFactorized
from attnc.ir.spec import AttnSpec
from attnc.passes.intervals import Interval
from attnc.passes.knowledge import Knowledge
from attnc.passes.logspace import at_most_zero, log_space

ROUNDING = 1e-12
MAX_HEADS = 4096  # that are looked at one by one


@dataclass(frozen=True, slots=True)
class Decay:
    """`log` is at most 0. `by_channel`: one number per element of psi."""

    log: Expr
    by_channel: bool


def decay_of(spec: AttnSpec, knowledge: Knowledge) -> Decay | None:
    if spec.decay is None:
        return None
    log = at_most_zero(log_space(spec.decay, knowledge), knowledge)
    return Decay(log, spec.decay.type.is_row)


def check_decay(
    spec: AttnSpec,
    factorization: Factorized | NotFactorized,
    mask: MaskFacts,
    knowledge: Knowledge,
) -> list[Diagnostic]:
    if spec.decay is None:
        return []
    found = []
    place = spec.span("decay")
    if not mask.implies_causal:
        message = (
            "a decay needs a mask that implies j <= i: it fades from key j to the row's position"
        )
        hint = (
            "add `causal` to the mask: `mask = causal` (and `align = lower_right`)"
            if spec.mask is None
            else "add it to the mask: `... and causal`"
        )
        found.append(Diagnostic("E303", message, place, hint))
    if (outside := _outside(spec, knowledge)) is not None:
        hint = "e.g. `decay = exp(g)` with g <= 0, `decay = sigmoid(g)`, `decay = 1 - 2^(-5 - h)`"
        found.append(Diagnostic("E304", outside, place, hint))
    if spec.decay.type.is_row:
        found.extend(_check_channels(spec, factorization))
    return found


def _outside(spec: AttnSpec, knowledge: Knowledge) -> str | None:
    """Where the decay is certain to lie outside (0, 1]: for every head, or for one of them."""
    assert spec.decay is not None
    by_head = reads(spec.decay, IndexName.HEAD)
    heads = min(spec.heads or 1, MAX_HEADS) if by_head else 1
    for head in range(heads):
        interval = knowledge.at_head(head).bounds(spec.decay)
        if interval.low > 1 + ROUNDING or _at_most_zero(interval):
            whose = f" for head {head}" if by_head else ""
            return f"the decay is {_shown(interval)}{whose}, and it must lie in (0, 1]"
        if interval.low == 1 and interval.lower.open:
            return "the decay is above 1, and it must lie in (0, 1]"
    return None


def _at_most_zero(interval: Interval) -> bool:
    return interval.high <= 0


def _shown(interval: Interval) -> str:
    if interval.is_point:
        return f"{interval.low:.6g}"
    return "never above 0" if interval.high <= 0 else f"at least {interval.low:.6g}"


def _check_channels(spec: AttnSpec, factorization: Factorized | NotFactorized) -> list[Diagnostic]:
    assert spec.decay is not None
    place, size = spec.span("decay"), spec.decay.type.shape[0]
    if isinstance(factorization, NotFactorized) or not factorization.single_product:
        why = factorization.reason if isinstance(factorization, NotFactorized) else (
            "this similarity is a sum or a power of products"
        )  # fmt: skip
        message = (
            f"a decay per channel (here a row of {size}) needs a similarity that is one product"
            f" A @ B with one-sided factors: {why}"
        )
        hint = "give the decay one number per token: `input g : [B, H, S]`"
        return [Diagnostic("E305", message, place, hint)]
    if size != factorization.size:
        message = (
            f"the decay has {size} channels, and the key's row in the similarity has"
            f" {factorization.size}"
        )
        hint = f"declare the tensor with a last axis of {factorization.size}"
        return [Diagnostic("E306", message, place, hint)]
    return []
