"""Probe: the shapes and kinds of the inputs of a call. Job: what a process that runs a module must
know, with its way to JSON and back."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any

ACCELERATOR = "cuda"  # the device that torch calls so, HIP's too


class Numbers(str, Enum):
    """How a declared tensor is filled."""

    NORMAL = "normal"
    GATES = "gates"  # logarithms of decays: near 0, of order 1/L, of order 1, and strong
    IDS = "ids"  # runs of equal integers
    BITS = "bits"


class Strides(str, Enum):
    PACKED = "packed"
    PADDED = "padded"  # rows further apart than they are long
    SWAPPED = "swapped"  # heads inside, tokens outside
    STEPPED = "stepped"  # every other number


class Task(str, Enum):
    VALUES = "values"  # outputs and all gradients
    STATE = "state"  # the same, going on from a state, and through the state returned
    SPLIT = "split"  # a sequence in several calls
    EMPTY = "empty"  # no rows, or no keys


@dataclass(frozen=True, slots=True)
class Given:
    """A declared tensor. `rows` and `keys` are the numbers of its L and S axes; what multiplies
    rows is no larger than they are by `scale`."""

    name: str
    numbers: Numbers
    shape: tuple[int, ...]
    rows: int | None
    keys: int | None
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Probe:
    """Shapes and kinds of the inputs of one call, or of one sequence of calls."""

    name: str
    rows: int
    keys: int
    d_k: int
    d_v: int
    batch: int = 1
    heads: int = 2
    key_heads: int = 2
    value_heads: int = 2
    dtype: str = "float32"
    scale: float = 1.0  # spread of q and k
    shift: float = 0.0  # their mean
    strides: Strides = Strides.PACKED
    task: Task = Task.VALUES
    past: int = 0  # tokens in the state before the first call
    pieces: tuple[int, ...] = ()
    thorough: bool = False  # each gradient alone too, and the call repeated
    recurrent: bool = True  # in the form that goes token by token too, when it is interpreted
    tensors: tuple[Given, ...] = ()

    @property
    def shapes(self) -> str:
        of_heads = f"H={self.heads}"
        if {self.key_heads, self.value_heads} != {self.heads}:
            of_heads += f"/{self.key_heads}/{self.value_heads}"
        past = f" after {self.past}" if self.past else ""
        return (
            f"B={self.batch} {of_heads} L={self.rows} S={self.keys}{past} "
            f"d_k={self.d_k} d_v={self.d_v}"
        )


@dataclass(frozen=True, slots=True)
class Job:
    """All that the process that runs a module must know."""

    blhd: bool
    has_lse: bool
    matrix_state: bool  # S (and z) rather than a KV cache
    has_z: bool
    steps: bool
    probes: tuple[Probe, ...]
    device: str = "cpu"


def as_data(job: Job) -> dict[str, Any]:
    return asdict(job)


def job_from(data: dict[str, Any]) -> Job:
    return Job(**(data | {"probes": tuple(_probe_from(p) for p in data["probes"])}))


def _probe_from(data: dict[str, Any]) -> Probe:
    given = tuple(
        Given(**(t | {"numbers": Numbers(t["numbers"]), "shape": tuple(t["shape"])}))
        for t in data["tensors"]
    )
    read = {
        "strides": Strides(data["strides"]),
        "task": Task(data["task"]),
        "pieces": tuple(data["pieces"]),
        "tensors": given,
    }
    return Probe(**({f.name: data[f.name] for f in fields(Probe)} | read))
