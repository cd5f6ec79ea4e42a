"""AttnSpec -> Facts, and every finding of the passes at once."""

from __future__ import annotations

from attnc.diagnostics import Diagnostic, errors
from attnc.ir.expr import Expr, IndexName, Number, reads
from attnc.ir.facts import Factorized, Facts, FormFact, MaskFacts, NotFactorized, Sign
from attnc.ir.spec import AttnSpec
from attnc.passes.decay import check_decay, decay_of
from attnc.passes.delta import check_delta
from attnc.passes.factorize import factorize
from attnc.passes.forms import forms
from attnc.passes.knowledge import Knowledge, knowledge_of
from attnc.passes.logic import implies
from attnc.passes.logspace import exponent_of
from attnc.passes.masks import mask_facts
from attnc.passes.sides import one_sided
from attnc.passes.signs import culprit, sign_of
from attnc.passes.simplify import simplify


def analyse(spec: AttnSpec) -> tuple[Facts | None, list[Diagnostic]]:
    """The facts, None where an error was found; the findings in the order of the text."""
    knowledge = knowledge_of(spec)
    exponent = exponent_of(spec.similarity, knowledge)
    factorization = factorize(spec.similarity)
    sign = Sign.POSITIVE if exponent is not None else sign_of(spec.similarity, knowledge)
    mask = mask_facts(spec.mask)
    decay = decay_of(spec, knowledge)
    by_channel = decay is not None and decay.by_channel
    facts = Facts(
        simplified=simplify(spec.similarity),
        exponent=exponent,
        factorization=factorization,
        sign=sign,
        log_decay=None if decay is None else decay.log,
        channel_decay=by_channel,
        mask=mask,
        forms=forms(spec, factorization, mask, by_channel),
    )
    found = _check_normalizer(spec, sign, exponent, factorization, knowledge)
    found += check_decay(spec, factorization, mask, knowledge)
    found += check_delta(spec, factorization, mask, knowledge)
    found += _check_mask(spec, mask)
    if not errors(found):
        found += _check_forms(spec, facts.forms)
    found.sort(key=lambda d: d.span.start)
    return (None if errors(found) else facts), found


def _check_normalizer(
    spec: AttnSpec,
    sign: Sign,
    exponent: Expr | None,
    factorization: Factorized | NotFactorized,
    knowledge: Knowledge,
) -> list[Diagnostic]:
    place = spec.span("normalizer")
    if spec.normalizer is None:
        if exponent is not None and not one_sided(exponent) and _is_pair(factorization):
            message = "exp of a pair without the normalizer can overflow: nothing is subtracted"
            hint = "softmax attention has `normalizer = on`"
            return [Diagnostic("W301", message, place, hint)]
        return []
    if spec.normalizer.signed or sign is not Sign.ANY or spec.beta is not None:
        return []
    fault = culprit(spec.similarity, knowledge)
    message = (
        f"the normalizer divides by the sum of the weights, and {fault}"
        " can be negative, so that the sum can be 0"
    )
    hint = (
        "use a function that is never negative, such as elu(x) + 1, relu(x) or exp(x) (softmax is"
        " `similarity = exp(q @ k / sqrt(d_k))`); `normalizer = on(signed)` says that the sum may"
        " have either sign, `normalizer = off` divides by nothing"
    )
    return [Diagnostic("E301", message, place, hint)]


def _is_pair(factorization: Factorized | NotFactorized) -> bool:
    return isinstance(factorization, NotFactorized)


def _check_mask(spec: AttnSpec, mask: MaskFacts) -> list[Diagnostic]:
    if spec.mask is None or mask.implies_causal:
        return []
    place = spec.span("mask")
    if implies(Number(True), spec.mask):
        message = "the mask is true for every pair"
        return [Diagnostic("W303", message, place, "write `mask = none`")]
    open_end = mask.first_key is not None and mask.past_key is None
    if open_end and reads(mask.first_key or spec.mask, IndexName.QUERY):
        message = (
            "the mask bounds the keys before a row and not those after it, so that there is no"
            " `step`"
        )
        return [Diagnostic("W303", message, place, "add `and causal`, or an end: `j <= i + n`")]
    return []


def _check_forms(spec: AttnSpec, facts: tuple[FormFact, ...]) -> list[Diagnostic]:
    exists = [fact.form.value for fact in facts if fact.exists]
    if not exists:
        reasons = "; ".join(f"{fact.form.value}: {fact.reason}" for fact in facts)
        message = f"no form computes this, only the reference does ({reasons})"
        return [Diagnostic("N301", message, spec.span("mask"))]
    for fact in facts:
        if fact.form is spec.form and not fact.exists:
            message = f"there is no {fact.form.value} form of this: {fact.reason}"
            hint = f"what exists: {', '.join(exists)}; `form = auto` takes the best of them"
            return [Diagnostic("E302", message, spec.span("form"), hint)]
    return []
