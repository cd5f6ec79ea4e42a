"""ModulePlan: all that the templates of a generated module read. Tuples of at most one are parts
that may be absent."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from attnc.ir.expr import Expr, Role, Tensor, TensorDecl
from attnc.ir.face import FacePlan
from attnc.ir.reference import ReferencePlan
from attnc.ir.sizes import Size
from attnc.ir.spec import Align, Form, Precision
from attnc.ir.types import Kind


class Local(Enum):
    """Variables of the generated kernels that expressions of the plan read."""

    X = "x"  # an element of a row
    SLOPE = "dy"  # the gradient of the element's image
    SCORE = "s"  # the product of the two rows of a pair
    FADE = "f"  # the logarithm of a pair's decay, where it depends on the tokens
    N = "n"  # [B, H, L]: the sum of a row's weights
    LSE = "lse"  # [B, H, L]: its logarithm

    def read(self, kind: Kind = Kind.FLOAT, shape: tuple[Size, ...] = ()) -> Tensor:
        # the blank keeps it apart from any tensor of a spec
        decl = TensorDecl(f"kernel {self.value}", Role.INPUT, kind, shape)
        return Tensor(decl, (None,) * len(shape))


@dataclass(frozen=True, slots=True)
class Constant:
    """What depends on sizes, and on the head where `by_head`, alone: computed once per call in
    float64, outside the kernels."""

    name: str
    value: Expr
    by_head: bool

    @property
    def read(self) -> Tensor:
        return Tensor(TensorDecl(f"constant {self.name}", Role.INPUT, self.value.type.kind, ()), ())


@dataclass(frozen=True, slots=True)
class Feature:
    """A map that works on a row element by element inside the kernels; `gradient` is its
    derivative times the gradient of its value."""

    name: str
    value: Expr
    gradient: Expr


class Place(Enum):
    """Where a number that torch makes for the pairs belongs."""

    ROW = "row"  # [B, H, L]
    KEY = "key"  # [B, H, S]
    HEAD = "head"  # [B, H]


@dataclass(frozen=True, slots=True)
class Operand:
    """A number that the pairs read beside their score. `slope` is the derivative of the pair's
    exponent or weight by it, empty for a number without a gradient."""

    name: str
    place: Place
    value: Expr
    slope: tuple[Expr, ...]

    @property
    def read(self) -> Tensor:
        return Tensor(TensorDecl(f"operand {self.name}", Role.INPUT, self.value.type.kind, ()), ())


class Weight(Enum):
    """How the parallel form makes weights of scores; each has a template of its own."""

    SOFTMAX = "softmax"  # exp(pair) under a running maximum
    PLAIN = "plain"  # the pair's weight itself


@dataclass(frozen=True, slots=True)
class Rows:
    """What torch makes of the rows before the kernels read them, and the kernels' features of it.
    `key` and `query` are empty where the rows enter as they are."""

    query: tuple[Expr, ...]
    key: tuple[Expr, ...]
    phi: str
    psi: str
    size: Size  # of the features' rows


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds on one index in terms of the other: first <= index < past."""

    first: tuple[Expr, ...]
    past: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Parallel:
    """`pair` is the exponent or the weight of a score s at (i, j), `slope` its derivative by s,
    `fade_slope` that by the logarithm of a decay of tokens, if there is one."""

    weight: Weight
    rows: Rows
    pair: Expr
    slope: Expr
    fade_slope: tuple[Expr, ...]
    operands: tuple[Operand, ...]
    mask: Expr
    keys: Range
    queries: Range


class Fading(Enum):
    """How a state fades; each has a template of its own."""

    NONE = "none"
    FIXED = "fixed"  # one decay per head
    TOKEN = "token"  # one per token, and new runs of ids
    CHANNEL = "channel"  # one per token and channel


@dataclass(frozen=True, slots=True)
class Sums:
    """The forms with a state: chunkwise, and recurrent where it exists. `causal` is empty where
    every row sees every key."""

    rows: Rows
    fading: Fading
    decays: tuple[Expr, ...]  # log a of the head, where it is FIXED
    causal: tuple[Align, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which form a call takes: see passes/choose.py."""

    chunk: int
    recurrent_up_to: int
    pairs_share: float


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """The module's kernels and what surrounds them. `definition` has the clauses that torch
    evaluates around the kernels; `gate`, of SOFTMAX, is what is left of n / N(n) where N is not n
    itself, `divisor` is N(n) of all else."""

    precision: Precision
    definition: ReferencePlan
    constants: tuple[Constant, ...]
    features: tuple[Feature, ...]
    parallel: tuple[Parallel, ...]
    sums: tuple[Sums, ...]
    divisor: tuple[Expr, ...]
    gate: tuple[Expr, ...]
    shift: int  # 1 where a row reads the state before its own token
    forms: tuple[Form, ...]
    default: tuple[Form, ...]  # the form that the spec asks for
    choice: Choice


@dataclass(frozen=True, slots=True)
class ModulePlan:
    """`kernels` is empty in a module that holds the reference alone. `spec_text` is the spec as it
    was written."""

    name: str
    spec_text: str
    spec_hash: str
    reference: ReferencePlan
    kernels: tuple[KernelPlan, ...]
    face: FacePlan
