"""What was decided about a spec, and why: the content of `attnc explain`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from attnc.costs import Memory, Tiles, costs, default_sizes, feature_size, memory, tiles
from attnc.emit.language import spell
from attnc.ir.expr import Expr, TensorDecl
from attnc.ir.facts import Factorized, Facts, NotFactorized
from attnc.ir.spec import AttnSpec, Form
from attnc.passes.choose import thresholds
from attnc.passes.sides import side_of


@dataclass(frozen=True, slots=True)
class ClauseRow:
    clause: str
    expression: str
    side: str
    shape: str


@dataclass(frozen=True, slots=True)
class Factors:
    """The similarity as phi @ psi, or why it is none."""

    phi: str | None
    psi: str | None
    size: str | None  # C in dims
    size_number: int | None  # C for the sizes given
    reason: str | None
    place: str | None


@dataclass(frozen=True, slots=True)
class MaskRow:
    key_masks: tuple[str, ...]
    pair_masks: tuple[str, ...]
    first_key: str | None
    past_key: str | None
    implies_causal: bool


@dataclass(frozen=True, slots=True)
class FormRow:
    form: str
    exists: bool
    reason: str | None
    flops: int | None
    moved_bytes: int | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that `attnc explain` says; each field is a key of `--json` (docs/explain.md)."""

    attention: str
    file: str
    sizes: dict[str, int]
    missing_sizes: tuple[str, ...]
    tensors: dict[str, str]
    clauses: tuple[ClauseRow, ...]
    factorization: Factors
    weights: str
    exponent: str | None
    log_decay: str | None
    mask: MaskRow
    forms: tuple[FormRow, ...]
    choice: str
    tiles: Tiles
    memory: Memory | None

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def explain(spec: AttnSpec, facts: Facts, given: Mapping[str, int]) -> Explanation:
    """The explanation for sizes; those that are not given have the defaults of a small model."""
    sizes = default_sizes(spec, given)
    own = {dim for decl in spec.tensors for size in decl.dims for dim in size.dims}
    missing = tuple(sorted(own - set(sizes)))
    return Explanation(
        attention=spec.name,
        file=spec.source.name,
        sizes=sizes,
        missing_sizes=missing,
        tensors={decl.name: _declaration(decl) for decl in spec.tensors},
        clauses=tuple(_clauses(spec)),
        factorization=_factors(facts, sizes),
        weights=facts.sign.value,
        exponent=spell(facts.exponent) if facts.exponent is not None else None,
        log_decay=spell(facts.log_decay) if facts.log_decay is not None else None,
        mask=_mask(facts),
        forms=_forms(spec, facts, sizes),
        choice=_choice(spec, facts, sizes),
        tiles=tiles(spec, facts, sizes),
        memory=_memory(spec, facts, sizes),
    )


def _declaration(decl: TensorDecl) -> str:
    dims = ", ".join(str(size) for size in decl.dims)
    return f"{decl.role.value} {decl.kind.value} [{dims}]"


def _clauses(spec: AttnSpec) -> list[ClauseRow]:
    named: list[tuple[str, Expr | None]] = [
        ("query", spec.query),
        ("key", spec.key),
        ("value", spec.value),
    ]
    named += [("similarity", spec.similarity), ("mask", spec.mask), ("decay", spec.decay)]
    named += [("update", spec.beta), ("output", spec.output)]
    normalizer = spec.normalizer
    if normalizer is not None:
        named += [("eps", normalizer.eps), ("floor", normalizer.floor)]
    return [
        ClauseRow(name, spell(expr), side_of(expr).value, str(expr.type))
        for name, expr in named
        if expr is not None
    ]


def _factors(facts: Facts, sizes: Mapping[str, int]) -> Factors:
    match facts.factorization:
        case Factorized(phi, psi) as found:
            number = _number(found, sizes)
            return Factors(spell(phi), spell(psi), str(found.size), number, None, None)
        case NotFactorized(reason, span):
            place = f"{span.line}:{span.column}" if span is not None else None
            return Factors(None, None, None, None, reason, place)


def _choice(spec: AttnSpec, facts: Facts, sizes: Mapping[str, int]) -> str:
    """The form of a call that names none, and the thresholds by which it is chosen."""
    if spec.form is not None:
        return f"{spec.form.value}, as the spec says"
    found = thresholds(spec, facts)
    if len(found.forms) < 2:
        return ", ".join(form.value for form in found.forms)
    parts = []
    if Form.RECURRENT in found.forms:
        parts.append(f"recurrent up to {found.recurrent_up_to} rows and keys")
    if Form.PARALLEL in found.forms:
        try:
            features = feature_size(facts, sizes)
        except KeyError:
            return ", ".join([*parts, "parallel for few rows", "chunkwise beyond"])
        rows = found.parallel_up_to(features, sizes["d_v"])
        parts.append(f"parallel up to {rows} rows (C = {features}, d_v = {sizes['d_v']})")
    return ", ".join([*parts, f"{Form.CHUNKWISE.value} beyond (chunks of {found.chunk})"])


def _number(found: Factorized, sizes: Mapping[str, int]) -> int | None:
    try:
        return found.size.evaluate(sizes)
    except KeyError:
        return None


def _mask(facts: Facts) -> MaskRow:
    mask = facts.mask
    return MaskRow(
        key_masks=tuple(spell(factor) for factor in mask.key_factors),
        pair_masks=tuple(spell(factor) for factor in mask.pair_factors),
        first_key=spell(mask.first_key) if mask.first_key is not None else None,
        past_key=spell(mask.past_key) if mask.past_key is not None else None,
        implies_causal=mask.implies_causal,
    )


def _forms(spec: AttnSpec, facts: Facts, sizes: Mapping[str, int]) -> tuple[FormRow, ...]:
    try:
        known = {cost.form: cost for cost in costs(spec, facts, sizes)}
    except KeyError:  # a dim of the spec's own that was not given
        known = {}
    rows = []
    for fact in facts.forms:
        cost = known.get(fact.form)
        flops, moved = (cost.flops, cost.moved_bytes) if cost else (None, None)
        rows.append(FormRow(fact.form.value, fact.exists, fact.reason or None, flops, moved))
    return tuple(rows)


def _memory(spec: AttnSpec, facts: Facts, sizes: Mapping[str, int]) -> Memory | None:
    try:
        return memory(spec, facts, sizes)
    except KeyError:
        return None
