"""ReferencePlan: all that the templates of the generated `reference` read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from attnc.ir.expr import Expr, Role, RowName, Tensor, TensorDecl
from attnc.ir.sizes import Size
from attnc.ir.types import Kind


class Local(Enum):
    """Variables of the generated function, or texts over them, that expressions of the plan read.
    The exponentials stand here since decays are at most 1, so that no gradient needs a guard."""

    LIVE = "live"  # [B, H, 1, S]: the keys that count
    START = "start"  # the number of tokens before this call's keys
    FIRST = "first"  # the position of row 0; it differs from START where all keys are given
    MASK = "mask"  # [B, H, L, S]: the pairs that exist
    LOG_DECAY = "log_decay"  # of each token
    DECAY = "decay"  # log D_ij
    FADED = "torch.exp(decay)"  # D_ij
    CARRIED = "torch.exp(carried)"  # the decay from before the first token to the row
    TAIL = "torch.exp(tail)"  # the decay from a key to the end
    KEPT = "kept"  # [B, H, 1, S]: the keys that the state after the last one holds
    N = "n"  # [B, H, L, 1]: sum of the weights
    TOP = "top"  # [B, H, L, 1]: the exponent that was taken out

    def read(self, kind: Kind = Kind.FLOAT, shape: tuple[Size, ...] = ()) -> Tensor:
        # the blank keeps it apart from any tensor of a spec
        decl = TensorDecl(f"local {self.value}", Role.INPUT, kind, shape)
        return Tensor(decl, (None,) * len(shape))


class Kernel(Enum):
    """How the definition is computed; each has a template of its own."""

    WEIGHTS = "weights"  # the L x S weights
    SOFTMAX = "softmax"  # the same with the exponent's maximum taken out
    DELTA = "delta"  # token by token
    DELTA_ROWS = "delta_rows"  # token by token for each row, since each sees other keys


@dataclass(frozen=True, slots=True)
class DimSource:
    """A dim that is the size of a tensor's axis."""

    name: str
    tensor: TensorDecl
    axis: int


@dataclass(frozen=True, slots=True)
class Clause:
    """What `query`, `key` or `value` makes of a row."""

    clause: str
    row: RowName
    expr: Expr


@dataclass(frozen=True, slots=True)
class Axis:
    """A declared tensor and the number of its S axis."""

    tensor: TensorDecl
    axis: int


@dataclass(frozen=True, slots=True)
class Decay:
    log_decay: Expr
    steps: Expr  # the same, of the tokens that lie before the row's state


@dataclass(frozen=True, slots=True)
class Same:
    """A run number at the key, and at the row."""

    at_key: Expr
    at_row: Expr
    inside: Expr  # whether the row stands at a key


@dataclass(frozen=True, slots=True)
class State:
    """What factorized keys add up to: `past` is the row's side, `written` the key's."""

    past: Expr
    written: Expr
    decays: tuple[Expr, ...]  # log of what the earlier state keeps to the end, if it decays
    seen: tuple[Expr, ...]
    kept: tuple[Expr, ...]
    ends: tuple[Expr, ...]  # whether the earlier state still counts after the last key


@dataclass(frozen=True, slots=True)
class Delta:
    phi: Expr
    psi: Expr
    beta: Expr
    read: Expr  # the number of the last token that a row's state holds


@dataclass(frozen=True, slots=True)
class ReferencePlan:
    """All that the reference's templates read. Tuples of at most one are parts that may be absent.

    `weight` is the weight, or the factor beside exp(exponent); `divisor` is N(n).
    """

    kernel: Kernel
    tensors: tuple[TensorDecl, ...]
    heads: tuple[int, ...]
    dims: tuple[DimSource, ...]
    first: Expr  # the position of row 0
    placed: tuple[Local, ...]  # that position as an argument, where the call decides it
    runs: tuple[Axis, ...]
    may_be_empty: tuple[Axis, ...]
    key_masks: tuple[Expr, ...]
    pair_masks: tuple[Expr, ...]
    rows: tuple[Clause, ...]
    decays: tuple[Decay, ...]
    exponent: tuple[Expr, ...]
    bound: Expr
    weight: Expr
    divisor: tuple[Expr, ...]
    has_lse: bool
    states: tuple[State, ...]
    deltas: tuple[Delta, ...]
    same: tuple[Same, ...]
    own: tuple[RowName, ...]
    output: tuple[Expr, ...]
