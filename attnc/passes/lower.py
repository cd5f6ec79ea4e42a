"""AttnSpec + Facts -> ModulePlan."""

from __future__ import annotations

import hashlib

from attnc.ir.facts import Facts
from attnc.ir.plan import ModulePlan
from attnc.ir.spec import AttnSpec
from attnc.passes.lower_face import lower_face
from attnc.passes.lower_kernels import lower_kernels
from attnc.passes.lower_reference import lower_reference


def lower(spec: AttnSpec, facts: Facts, reference_only: bool) -> ModulePlan:
    """The plan of a module, with kernels (see passes/kernels.py) or of the reference alone."""
    return ModulePlan(
        name=spec.name,
        spec_text=spec.source.text.strip(),
        spec_hash=spec_hash(spec),
        reference=lower_reference(spec, facts),
        kernels=() if reference_only else (lower_kernels(spec, facts),),
        face=lower_face(spec, facts, kernels=not reference_only),
    )


def spec_hash(spec: AttnSpec) -> str:
    """Tells two specs apart: by their text, and by what `--set` can change."""
    heads = (spec.heads, spec.kv_heads, spec.v_heads, spec.d_k, spec.d_v)
    words = (spec.align, spec.read, spec.form, spec.chunk, spec.layout, spec.precision)
    parts = repr((spec.source.text.strip(), spec.lets, heads, words))
    return hashlib.sha256(parts.encode()).hexdigest()[:16]
