"""Which forms compute a spec, and why the others do not."""

from __future__ import annotations

from attnc.ir.facts import Factorized, FormFact, MaskFacts, NotFactorized
from attnc.ir.spec import AttnSpec, Form


def forms(
    spec: AttnSpec,
    factorization: Factorized | NotFactorized,
    mask: MaskFacts,
    channel_decay: bool,
) -> tuple[FormFact, ...]:
    """One row per form, in the order in which they are named."""
    state = _no_state(factorization, mask)
    over_time = state or _not_causal(mask)
    if spec.beta is not None:
        parallel = (
            "a delta update writes what the state lacks: its weights are no function of q and k"
        )
    elif channel_decay:
        parallel = "with a decay per channel the weight is no product of a score and a decay"
    else:
        parallel = ""
    # a sum over all keys needs no order in time; a correction, or a decay, does
    chunkwise = over_time if spec.beta is not None or spec.decay is not None else state
    return (
        FormFact(Form.PARALLEL, parallel),
        FormFact(Form.CHUNKWISE, chunkwise),
        FormFact(Form.RECURRENT, over_time),
    )


def _no_state(factorization: Factorized | NotFactorized, mask: MaskFacts) -> str:
    """Why no state of fixed size stands for the keys so far; empty where one does."""
    if isinstance(factorization, NotFactorized):
        return f"the similarity has no state of fixed size: {factorization.reason}"
    if mask.is_causal or not mask.pair_factors:
        return ""
    return (
        "the mask takes single keys out of the sum again, which a state cannot: it can be `causal`,"
        " key masks, `same` with `causal`, and their conjunctions"
    )


def _not_causal(mask: MaskFacts) -> str:
    return "" if mask.is_causal else "without `causal` in the mask a row also sees later keys"
