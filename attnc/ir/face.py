"""FacePlan: all that the templates of a module's public functions read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from attnc.ir.expr import Expr, TensorDecl
from attnc.ir.facts import FormFact
from attnc.ir.reference import ReferencePlan
from attnc.ir.sizes import Size
from attnc.ir.spec import Layout


class Memory(Enum):
    """What a call hands on to the next; each has a template of its own."""

    SUMS = "sums"  # (S, z), what the keys add up to
    CACHE = "cache"  # all keys and values


class Offers(Enum):
    """What the module has beside its state and its reference; each is a template."""

    ATTENTION = "attention"
    STEP = "step"
    NO_STEP = "no_step"
    LAYER = "layer"


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared tensor as a call gets it: `axes` are its sizes then.

    `over_keys` is the number of its S axis, `over_rows` that of its L axis, `over_batch` that of
    its B axis; tuples of at most one.
    """

    decl: TensorDecl
    axes: tuple[Size, ...]
    over_keys: tuple[int, ...]
    over_rows: tuple[int, ...]
    over_batch: tuple[int, ...]

    @property
    def in_a_step(self) -> tuple[int, ...]:
        """The axis that a step's tensor lacks."""
        return self.over_rows or self.over_keys


@dataclass(frozen=True, slots=True)
class OwnDim:
    """A dim that the spec names: the size of an axis of a tensor. `keyword` is what the layer and
    `init_state` call it."""

    name: str
    tensor: TensorDecl
    axis: int
    keyword: str


@dataclass(frozen=True, slots=True)
class Need:
    """A size that a new state depends on: its keyword, and what the spec fixes it to."""

    name: str
    keyword: str
    fixed: int | None


@dataclass(frozen=True, slots=True)
class Fixed:
    """A size that the spec fixes, and the axis that has it."""

    word: str
    tensor: str
    axis: int
    value: int


@dataclass(frozen=True, slots=True)
class Learned:
    """A param or buffer of the layer, and its attribute there."""

    declared: Declared
    attribute: str


@dataclass(frozen=True, slots=True)
class Kept:
    """What a state keeps of a declared tensor, and its attribute there: a cache the values of every
    token, sums that of the last token, whose axes are `axes` and whose B axis is `over_batch`."""

    declared: Declared
    attribute: str
    axes: tuple[Size, ...]
    over_batch: tuple[int, ...]

    @property
    def over_keys(self) -> int:
        return self.declared.over_keys[0]


@dataclass(frozen=True, slots=True)
class Live:
    """The key masks: which of the new keys count. `dims` are the sizes that they read."""

    factors: tuple[Expr, ...]
    dims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FacePlan:
    """The public part of a module. Tuples of at most one are parts that may be absent.

    `value` is the size of a row of o, `channels` is C, `state_axes` are those of S. `lacks_lse`
    holds a word where there is no lse, `z` one where there is a normalizer.
    """

    name: str
    memory: Memory
    offers: tuple[Offers, ...]
    layout: Layout
    tensors: tuple[Declared, ...]
    dims: tuple[OwnDim, ...]
    fixed: tuple[Fixed, ...]
    heads: int | None
    kv_heads: int | None
    v_heads: int | None
    d_k: int | None
    d_v: int | None
    absent: tuple[FormFact, ...]
    lacks_lse: tuple[str, ...]
    z: tuple[str, ...]
    channels: Size
    value: Size
    state_axes: tuple[Size, ...]
    needs: tuple[Need, ...]
    kept: tuple[Kept, ...]
    live: tuple[Live, ...]
    inputs: tuple[Declared, ...]  # of the layer's forward
    params: tuple[Learned, ...]
    buffers: tuple[Learned, ...]
    layer_dims: tuple[OwnDim, ...]
    reference: ReferencePlan
