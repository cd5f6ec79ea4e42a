"""FacePlan: all that the templates of a module's public functions read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from attnc.ir.expr import TensorDecl
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
class Run:
    """A tensor of `same`: a state of sums is forgotten where its value has changed."""

    declared: Declared
    over_heads: bool  # its last value has a head axis
    over_groups: bool  # which is that of the keys' heads


@dataclass(frozen=True, slots=True)
class FacePlan:
    """The public part of a module. Tuples of at most one are parts that may be absent.

    `channels` is C, `value` the size of v's row in the state; `needs` are the sizes that a new
    state depends on. `kept` are the tensors of earlier tokens that later rows need.
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
    has_lse: bool
    has_z: bool
    channels: Size
    value: Size
    needs: tuple[str, ...]
    kept: tuple[Declared, ...]
    runs: tuple[Run, ...]
    params: tuple[Learned, ...]
    buffers: tuple[Learned, ...]
    reference: ReferencePlan
