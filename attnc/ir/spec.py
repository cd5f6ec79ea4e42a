"""AttnSpec: what a spec says, as mathematics. No tiles, no kernels, no text."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from attnc.ir.expr import Expr, TensorDecl
from attnc.source import Source, Span


class Align(Enum):
    LOWER_RIGHT = "lower_right"  # row i's position is i + S - L
    UPPER_LEFT = "upper_left"  # row i's position is i


class Read(Enum):
    AFTER = "after"
    BEFORE = "before"


class Form(Enum):
    PARALLEL = "parallel"
    CHUNKWISE = "chunkwise"
    RECURRENT = "recurrent"


class Layout(Enum):
    BHLD = "bhld"
    BLHD = "blhd"


class Precision(Enum):
    IEEE = "ieee"
    TF32 = "tf32"
    TF32X3 = "tf32x3"


@dataclass(frozen=True, slots=True)
class Normalizer:
    """N(n): n, n + eps, or max(|n|, floor); both may depend on h. At most one of them is given."""

    eps: Expr | None = None
    floor: Expr | None = None
    signed: bool = False


@dataclass(frozen=True, slots=True)
class AttnSpec:
    """One attention. Expressions are resolved: functions inlined, lets replaced by their numbers.

    `query`, `key` and `value` read the rows as passed in; every other clause reads what these
    three made of them (a Row of that size). `mask` None is the mask `none`; `decay`, `beta` and
    `normalizer` are None where the clause is absent or off. `form` None is auto, `chunk` None too.
    `heads`, `kv_heads`, `v_heads`, `d_k`, `d_v` are None where the tensors decide at the call.
    """

    name: str
    source: Source = field(compare=False, repr=False)
    tensors: tuple[TensorDecl, ...]
    lets: tuple[tuple[str, float], ...]
    query: Expr
    key: Expr
    value: Expr
    similarity: Expr
    mask: Expr | None
    align: Align | None
    decay: Expr | None
    beta: Expr | None  # update = delta(beta)
    read: Read
    normalizer: Normalizer | None
    output: Expr
    heads: int | None = None
    kv_heads: int | None = None
    v_heads: int | None = None
    d_k: int | None = None
    d_v: int | None = None
    form: Form | None = None
    chunk: int | None = None
    layout: Layout = Layout.BHLD
    precision: Precision = Precision.IEEE
    spans: tuple[tuple[str, Span], ...] = field(default=(), compare=False, repr=False)

    def span(self, clause: str) -> Span:
        """Where a clause's value stands; the attention's name where the clause is absent."""
        spans = dict(self.spans)
        return spans.get(clause, spans["name"])
