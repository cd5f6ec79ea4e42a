"""What `update = delta(..)` needs."""

from __future__ import annotations

from attnc.diagnostics import Diagnostic
from attnc.ir.expr import Call, Expr
from attnc.ir.facts import Factorized, MaskFacts, NotFactorized
from attnc.ir.ops import Op
from attnc.ir.spec import AttnSpec
from attnc.passes.intervals import is_unit
from attnc.passes.knowledge import Knowledge


def check_delta(
    spec: AttnSpec,
    factorization: Factorized | NotFactorized,
    mask: MaskFacts,
    knowledge: Knowledge,
) -> list[Diagnostic]:
    if spec.beta is None:
        return []
    found = []
    place = spec.span("update")
    if spec.normalizer is not None:
        message = "a delta update has no normalizer: its weights have no sum to divide by"
        found.append(Diagnostic("E307", message, place, "write `normalizer = off`"))
    single = isinstance(factorization, Factorized) and factorization.single_product
    if not single:
        why = factorization.reason if isinstance(factorization, NotFactorized) else (
            "this one is a sum or a power of products"
        )  # fmt: skip
        message = f"a delta update needs a similarity that is one product A @ B: {why}"
        hint = "e.g. `similarity = q @ k` with `key = unit(k)`"
        found.append(Diagnostic("E308", message, place, hint))
    if not mask.implies_causal:
        message = "a delta update needs a mask that implies j <= i: it writes in the order of time"
        hint = "write `mask = causal` (and `align = lower_right`)"
        found.append(Diagnostic("E309", message, place, hint))
    if (
        isinstance(factorization, Factorized)
        and single
        and not _short(factorization.psi, knowledge)
    ):
        message = "a delta update with keys that are not normalized may grow without bound"
        hint = "write `key = unit(k)`, or `similarity = q @ unit(k)`"
        found.append(Diagnostic("W302", message, place, hint))
    return found


def _short(row: Expr, knowledge: Knowledge) -> bool:
    return _at_most_one(knowledge.inlined(row))


def _at_most_one(row: Expr) -> bool:
    """Is the row's length certain to be at most 1?"""
    match row:
        case Call(Op.SOFTMAX):
            return True
        case Call(Op.ROTATE | Op.ROLL, (x, _)):
            return _at_most_one(x)
        case Call(Op.NEG, (x,)):
            return _at_most_one(x)
    return is_unit(row)
