"""Calling a module, or its reference, on the material of a probe, and collecting every result."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from attnc.verify.material import Material, cotangent, laid, shaken_tensor
from attnc.verify.probe import Job, Numbers, Probe, Task
from attnc.verify.tensors import Guarded, Inputs, dtype_of

Results = dict[str, Tensor]


@dataclass(frozen=True)
class Way:
    """One form on one backend."""

    form: str
    backend: str


PLAIN = Way("reference", "torch")  # the reference in the probe's own dtype, not in float64


@dataclass
class Call:
    """One call: who is called, on what, and what is differentiated."""

    module: ModuleType
    job: Job
    probe: Probe
    way: Way | None  # None is the reference, in float64
    guarded: Guarded = dataclasses.field(default_factory=Guarded)
    alone: str = ""  # the one input that wants a gradient; empty for all
    noise: torch.Generator | None = None  # shakes the gradients that come back

    def results(self, m: Material) -> Results:
        """Outputs and gradients, in float64 and in the axes B H L d."""
        given = self._given(m.inputs)
        state, matrix = self._state(m)
        leaves = self._leaves(given, matrix)
        for x in leaves.values():
            x.requires_grad_()
        outputs = self.outputs(given, state)
        return self._collected(outputs, leaves)

    def outputs(self, given: dict[str, Tensor], state: Any) -> Results:
        wants_state = self.probe.task is Task.STATE and self.job.matrix_state
        flags = {"return_lse": self.job.has_lse, "return_state": wants_state}
        chosen = {name: True for name, wanted in flags.items() if wanted}
        if state is not None:
            chosen["initial_state"] = state
        returned = self.function()(**given, **chosen)
        parts = list(returned) if isinstance(returned, tuple) else [returned]
        outputs = {"o": parts.pop(0)}
        if self.job.has_lse:
            outputs["lse"] = parts.pop(0)
        if wants_state:
            outputs["state.S"] = parts[0].S
            if self.job.has_z:
                outputs["state.z"] = parts[0].z
        return outputs

    def function(self) -> Callable[..., Any]:
        if self.way in (None, PLAIN):
            return self.module.reference  # type: ignore[no-any-return]
        assert self.way is not None
        way = self.way

        def attention(q: Tensor, k: Tensor, v: Tensor, **rest: Any) -> Any:
            return self.module.attention(q, k, v, form=way.form, backend=way.backend, **rest)

        return attention

    def _given(self, inputs: Inputs) -> dict[str, Tensor]:
        named = {"q": inputs.q, "k": inputs.k, "v": inputs.v, **inputs.tensors}
        return {name: self._held(name, x) for name, x in named.items()}

    def _held(self, name: str, x: Tensor) -> Tensor:
        if name in "qkv":
            x = laid(x, self.job)
        if self.way is None:
            return x.detach().clone()
        typed = x.to(dtype_of(name, x, self.probe))
        return self._guard(name, typed)

    def _state(self, m: Material) -> tuple[Any, dict[str, Tensor]]:
        """The state to go on from, and its parts that can be differentiated."""
        if m.before is None:
            return None, {}
        if not self.job.matrix_state:
            if self.way is None:
                return m.state, {}
            with torch.no_grad():
                given = self._given(m.before)
                return self.function()(**given, return_state=True)[-1], {}
        if self.way is None:
            matrix = {name: x.detach().clone() for name, x in m.matrix.items()}
        else:
            matrix = {name: self._guard(f"state.{name}", x.float()) for name, x in m.matrix.items()}
        return dataclasses.replace(m.state, **matrix), matrix

    def _guard(self, name: str, x: Tensor) -> Tensor:
        return self.guarded.hold(name, x, self.probe.strides, self.job.device).detach()

    def _leaves(self, given: dict[str, Tensor], matrix: dict[str, Tensor]) -> dict[str, Tensor]:
        smooth = {
            t.name for t in self.probe.tensors if t.numbers in (Numbers.NORMAL, Numbers.GATES)
        }
        leaves = {n: x for n, x in given.items() if n in "qkv" or n in smooth}
        leaves |= matrix
        return {n: x for n, x in leaves.items() if self.alone in ("", n)}

    def _collected(self, outputs: Results, leaves: dict[str, Tensor]) -> Results:
        asked = torch.float64 if self.way is None else None
        back = []
        for name, x in outputs.items():
            dtype = getattr(torch, self.probe.dtype) if name == "o" else torch.float32
            w = cotangent(name, laid(x, self.job) if name == "o" else x, dtype)
            if self.noise is not None:
                w = shaken_tensor(w, getattr(torch, self.probe.dtype), self.noise)
            w = laid(w, self.job) if name == "o" else w
            back.append(w.to(x.device, asked or x.dtype))
        slopes: tuple[Tensor | None, ...] = (None,) * len(leaves)
        # nothing of an input that the spec does not read
        if any(x.requires_grad for x in outputs.values()):
            slopes = torch.autograd.grad(
                list(outputs.values()), list(leaves.values()), back, allow_unused=True
            )
        results = {name: x.detach().double().cpu() for name, x in outputs.items()}
        for (name, leaf), slope in zip(leaves.items(), slopes, strict=True):
            found = torch.zeros_like(leaf) if slope is None else slope
            results[f"d{name}"] = found.double().cpu()
        on_rows = {"o", "dq", "dk", "dv"}
        return {n: laid(x, self.job) if n in on_rows else x for n, x in results.items()}
