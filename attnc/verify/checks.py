"""A module and its probes -> comparisons. Each probe runs on every form and backend."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from attnc.verify.calls import PLAIN, Call, Results, Way
from attnc.verify.compare import bound, error
from attnc.verify.material import Material, laid, material, natural_sizes, part, shaken
from attnc.verify.probe import Job, Probe, Task
from attnc.verify.tensors import inputs_of
from attnc.verify.verdict import Comparison

FURTHER = 4.0  # roundings for one
FIRST_STEPS = 3  # tokens one by one from an empty state


def backends() -> tuple[str, ...]:
    """Triton (under its interpreter, where the environment says so) if it is there, and torch."""
    return ("triton", "torch") if find_spec("triton") else ("torch",)


def ways_of(module: ModuleType) -> list[Way]:
    return [Way(form, backend) for backend in backends() for form in module.FORMS]


def check(module: ModuleType, job: Job, ways: list[Way] | None = None) -> Iterator[Comparison]:
    """Every comparison of a job; with `ways` only in these forms and backends."""
    wanted = ways_of(module) if ways is None else ways
    for probe in job.probes:
        checker = _Splits if probe.task is Task.SPLIT else _Values
        mine = [way for way in wanted if probe.recurrent or not _walks(way, job)]
        yield from _guarded(probe, Way("reference", ""), partial(checker, module, job, probe, mine))


def _walks(way: Way, job: Job) -> bool:
    """Does it interpret one token after the other?"""
    return way == Way("recurrent", "triton") and job.device == "cpu"


def _guarded(
    probe: Probe, way: Way, comparisons: Callable[[], Iterable[Comparison]]
) -> Iterator[Comparison]:
    """The comparisons; an exception on the way is one that failed."""
    try:
        yield from comparisons()
    except Exception as raised:
        yield _made(probe, way, "call", math.inf, 0.0, reason(raised))


def reason(raised: BaseException) -> str:
    """An exception in one line."""
    lines = [line.strip() for line in str(raised).strip().splitlines() if line.strip()]
    return f"{type(raised).__name__}: {lines[-1]}"[:300] if lines else type(raised).__name__


def _made(
    probe: Probe, way: Way, what: str, error: float, bound: float, note: str = ""
) -> Comparison:
    return Comparison(
        way.form, way.backend, what, probe.name, probe.shapes, probe.dtype, error, bound, note
    )


class _Values:
    """Outputs and gradients of one call, with a state before it or not."""

    def __init__(self, module: ModuleType, job: Job, probe: Probe, ways: list[Way]):
        self.module, self.job, self.probe, self.ways = module, job, probe, ways
        self.dtype: torch.dtype = getattr(torch, probe.dtype)

    def __iter__(self) -> Iterator[Comparison]:
        m = material(self.module, self.job, self.probe)
        wanted = Call(self.module, self.job, self.probe, None).results(m)
        bounds = self._bounds(m, wanted)
        for way in self.ways:
            yield from _guarded(self.probe, way, partial(self._way, way, m, wanted, bounds))

    def _bounds(self, m: Material, wanted: Results) -> dict[str, float]:
        """What each result may be off: the reference is asked how much one more rounding of the
        inputs does, and how far its own mathematics is off in float32."""
        noise = torch.Generator().manual_seed(11)
        moved = shaken(m, self.module, self.job, self.dtype)
        call = Call(self.module, self.job, self.probe, None, noise=noise)
        sizes = natural_sizes(m, self.job.has_lse)
        found = {n: error(x, wanted[n], sizes.get(n, 0.0)) for n, x in call.results(moved).items()}
        plain = dict.fromkeys(found, 0.0)
        if self.dtype is torch.float32:
            in_float32 = Call(self.module, self.job, self.probe, PLAIN).results(m)
            plain = {n: error(x, wanted[n], sizes.get(n, 0.0)) for n, x in in_float32.items()}
        # between a declared tensor and its gradient lie rows made of it, and theirs: rounded all
        far = {f"d{t.name}" for t in self.probe.tensors}
        return {
            n: bound(x * FURTHER if n in far else x, self.dtype, plain[n]) for n, x in found.items()
        }

    def _way(
        self, way: Way, m: Material, wanted: Results, bounds: dict[str, float]
    ) -> Iterator[Comparison]:
        sizes = natural_sizes(m, self.job.has_lse)

        def compared(got: Results, suffix: str = "") -> Iterator[Comparison]:
            for name, x in got.items():
                off = error(x, wanted[name], sizes.get(name, 0.0))
                if math.isfinite(bounds[name]) or not wanted[name].isfinite().all():
                    yield _made(self.probe, way, name + suffix, off, bounds[name])

        call = Call(self.module, self.job, self.probe, way)
        got = call.results(m)
        yield from compared(got)
        yield self._holds(way, "inputs unchanged", call.guarded.changed())
        if self.probe.thorough:
            again = Call(self.module, self.job, self.probe, way).results(m)
            other = [name for name in got if not _same_bits(got[name], again[name])]
            yield self._holds(way, "repeated", ", ".join(other))
            for name in "qkv":
                alone = Call(self.module, self.job, self.probe, way, alone=name).results(m)
                yield from compared({f"d{name}": alone[f"d{name}"]}, " alone")

    def _holds(self, way: Way, what: str, exceptions: str) -> Comparison:
        note = f"not for {exceptions}" if exceptions else ""
        return _made(self.probe, way, what, float(bool(exceptions)), 0.0, note)


def _same_bits(x: Tensor, y: Tensor) -> bool:
    return x.shape == y.shape and torch.equal(
        x.contiguous().view(torch.uint8), y.contiguous().view(torch.uint8)
    )


class _Splits:
    """One sequence in several calls, the state handed from form to form, against one call."""

    def __init__(self, module: ModuleType, job: Job, probe: Probe, ways: list[Way]):
        self.module, self.job, self.probe, self.ways = module, job, probe, ways

    @torch.no_grad()
    def __iter__(self) -> Iterator[Comparison]:
        inputs = inputs_of(self.probe, self.probe.keys)
        q, k, v = (laid(x, self.job) for x in (inputs.q, inputs.k, inputs.v))
        wanted = laid(self.module.reference(q, k, v, **inputs.tensors), self.job)
        for backend in dict.fromkeys(way.backend for way in self.ways):
            forms = [way.form for way in self.ways if way.backend == backend]
            for n, form in enumerate(forms):
                order = forms[n:] + forms[:n]
                yield from _guarded(
                    self.probe,
                    Way(form, backend),
                    partial(self._pieces, wanted, backend, order),
                )
        if self.job.steps:
            yield from _guarded(self.probe, Way("step", ""), partial(self._first_steps, wanted))

    def _pieces(self, wanted: Tensor, backend: str, forms: list[str]) -> Iterator[Comparison]:
        """Every piece in the next form; every other piece of one token by `step`."""
        state, first, rows, ones = None, 0, [], 0
        for n, length in enumerate(self.probe.pieces):
            given = self._part(first, first + length)
            ones += length == 1
            if length == 1 and ones % 2 and self.job.steps:
                o, state = self._step(given, state)
            else:
                form = forms[n % len(forms)]
                o, state = self.module.attention(
                    **given, form=form, backend=backend, initial_state=state, return_state=True
                )
                o = laid(o, self.job)
            first += length
            rows.append(o)
            if state.length != first:
                note = f"the state's length is {state.length} after {first} tokens"
                yield _made(self.probe, Way(forms[0], backend), "length", 1.0, 0.0, note)
        off = error(torch.cat(rows, 2).cpu(), wanted)
        yield _made(
            self.probe, Way(forms[0], backend), "o in pieces", off, bound(0.0, torch.float32)
        )

    def _first_steps(self, wanted: Tensor) -> Iterator[Comparison]:
        p = self.probe
        state = self.module.init_state(
            p.batch,
            heads=p.heads,
            kv_heads=p.key_heads,
            d_k=p.d_k,
            d_v=p.d_v,
            device=self.job.device,
            dtype=torch.float32,
        )
        rows = []
        for t in range(FIRST_STEPS):
            o, state = self._step(self._part(t, t + 1), state)
            rows.append(o)
        off = error(torch.cat(rows, 2).cpu(), wanted[:, :, :FIRST_STEPS])
        yield _made(p, Way("step", ""), "o", off, bound(0.0, torch.float32))

    def _step(self, given: dict[str, Tensor], state: Any) -> tuple[Tensor, Any]:
        axis = 1 if self.job.blhd else 2
        single = {name: given[name].squeeze(axis) for name in "qkv"}
        for t in self.probe.tensors:
            axes = sorted({a for a in (t.rows, t.keys) if a is not None}, reverse=True)
            single[t.name] = given[t.name]
            for a in axes:
                single[t.name] = single[t.name].squeeze(a)
        o, state = self.module.step(
            single.pop("q"), single.pop("k"), single.pop("v"), state, **single
        )
        return o[:, :, None], state

    def _part(self, first: int, past: int) -> dict[str, Tensor]:
        inputs = part(inputs_of(self.probe, self.probe.keys), self.probe, first, past)
        given = {name: laid(getattr(inputs, name), self.job) for name in "qkv"}
        given |= inputs.tensors
        typed = {n: x.float() if x.is_floating_point() else x for n, x in given.items()}
        return {n: x.to(self.job.device) for n, x in typed.items()}
