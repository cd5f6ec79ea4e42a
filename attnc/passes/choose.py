"""The choice of form at a call: thresholds on its numbers of rows and keys.

Per key the parallel form multiplies about share * L * (C + d_v) numbers, the chunkwise form
T * (C + d_v) + 2 * C * d_v with chunks of T rows. Both grow with the keys, so that the rows decide.
"""

from __future__ import annotations

from dataclasses import dataclass

from attnc.ir.facts import Facts
from attnc.ir.spec import AttnSpec, Form

CHUNK = 64  # rows of a chunk where the spec leaves it to the compiler
STEPS = 4  # tokens up to which one step after the other is quicker than a chunk, mostly padding


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Of a module: which form a call of so many rows and keys takes."""

    forms: tuple[Form, ...]
    chunk: int
    recurrent_up_to: int  # rows and keys
    share: float  # of all pairs that the parallel form computes

    def parallel_up_to(self, features: int, d_v: int) -> int:
        """The most rows for which the parallel form does not multiply more than the chunkwise."""
        width = features + d_v
        return int((self.chunk + 2 * features * d_v / width) / self.share) if width else self.chunk

    def form(self, rows: int, keys: int, features: int, d_v: int) -> Form:
        """The form for one call."""
        if len(self.forms) == 1:
            return self.forms[0]
        if Form.RECURRENT in self.forms and max(rows, keys) <= self.recurrent_up_to:
            return Form.RECURRENT
        if Form.PARALLEL in self.forms and rows <= self.parallel_up_to(features, d_v):
            return Form.PARALLEL
        return Form.CHUNKWISE if Form.CHUNKWISE in self.forms else self.forms[0]


def thresholds(spec: AttnSpec, facts: Facts) -> Thresholds:
    """A form that the spec asks for is the only one."""
    forms = facts.form_names if spec.form is None else (spec.form,)
    share = 0.5 if facts.mask.implies_causal else 1.0
    return Thresholds(forms, spec.chunk or CHUNK, STEPS, share)
