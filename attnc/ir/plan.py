"""ModulePlan: all that the template of a generated module reads."""

from __future__ import annotations

from dataclasses import dataclass

from attnc.ir.expr import TensorDecl
from attnc.ir.reference import ReferencePlan
from attnc.ir.spec import Layout


@dataclass(frozen=True, slots=True)
class ModulePlan:
    """A module that holds the reference alone. `spec_text` is the spec as it was written."""

    name: str
    spec_text: str
    spec_hash: str
    layout: Layout
    tensors: tuple[TensorDecl, ...]
    has_lse: bool
    reference: ReferencePlan
