"""AttnSpec + Facts -> ModulePlan."""

from __future__ import annotations

import hashlib

from attnc.ir.facts import Facts
from attnc.ir.plan import ModulePlan
from attnc.ir.spec import AttnSpec
from attnc.passes.lower_reference import lower_reference


def lower(spec: AttnSpec, facts: Facts) -> ModulePlan:
    """The plan of a module that holds the reference alone."""
    reference = lower_reference(spec, facts)
    return ModulePlan(
        name=spec.name,
        spec_text=spec.source.text.strip(),
        spec_hash=_hash(spec),
        layout=spec.layout,
        tensors=spec.tensors,
        has_lse=reference.has_lse,
        reference=reference,
    )


def _hash(spec: AttnSpec) -> str:
    """Tells two specs apart: by their text, and by what `--set` can change."""
    heads = (spec.heads, spec.kv_heads, spec.v_heads, spec.d_k, spec.d_v)
    words = (spec.align, spec.read, spec.form, spec.chunk, spec.layout, spec.precision)
    parts = repr((spec.source.text, spec.lets, heads, words))
    return hashlib.sha256(parts.encode()).hexdigest()[:16]
