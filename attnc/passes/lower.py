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
        spec_hash=hashlib.sha256(spec.source.text.encode()).hexdigest()[:16],
        layout=spec.layout,
        tensors=spec.tensors,
        has_lse=reference.has_lse,
        reference=reference,
    )
