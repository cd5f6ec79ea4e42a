"""What a verification found: every comparison and every build, and the sentence that sums it up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any


class Effort(str, Enum):
    """How much is verified before a module is handed out."""

    NONE = "none"
    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantity of one probe against the reference. An error that is no number is a failure."""

    form: str
    backend: str
    what: str  # o, lse, dq, ..., or the name of a property that either holds or does not
    probe: str
    shapes: str
    dtype: str
    error: float
    bound: float
    note: str = ""

    @property
    def ok(self) -> bool:
        return self.error <= self.bound


@dataclass(frozen=True, slots=True)
class Build:
    """One kernel compiled for one GPU, as a launch on these dtypes and sizes would."""

    kernel: str
    target: str
    launch: str
    ok: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """All comparisons of one quantity in one form: the one nearest to its bound, or past it."""

    form: str
    backend: str
    what: str
    worst: Comparison
    probes: tuple[str, ...]
    failed: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.failed


@dataclass(frozen=True, slots=True)
class Verdict:
    """`problem` says why the verification itself came to no end; empty where it did."""

    comparisons: tuple[Comparison, ...] = ()
    builds: tuple[Build, ...] = ()
    effort: Effort = Effort.QUICK
    problem: str = ""
    skipped: tuple[str, ...] = ()  # what was left out, and why

    @property
    def ok(self) -> bool:
        held = all(c.ok for c in self.comparisons) and all(b.ok for b in self.builds)
        return not self.problem and bool(self.comparisons) and held

    @property
    def rows(self) -> tuple[Row, ...]:
        groups: dict[tuple[str, str, str], list[Comparison]] = {}
        for c in self.comparisons:
            groups.setdefault((c.form, c.backend, c.what), []).append(c)
        return tuple(_row(key, group) for key, group in groups.items())

    @property
    def summary(self) -> str:
        """One line: it stands in the header of the module and ends the command's report."""
        if self.problem:
            return f"the verification did not end: {self.problem}"
        failures = [c for c in self.comparisons if not c.ok]
        broken = [b for b in self.builds if not b.ok]
        if not self.comparisons:
            return "nothing was compared"
        if failures or broken:
            return (
                f"{len(failures)} of {len(self.comparisons)} comparisons and "
                f"{len(broken)} of {len(self.builds)} builds failed"
            )
        forms = _listed(c.form for c in self.comparisons if c.backend)
        backends = _listed(c.backend for c in self.comparisons if c.backend)
        targets = _listed(b.target for b in self.builds)
        built = f"; {len(self.builds)} builds for {targets}" if targets else ""
        compared = f"{len(self.comparisons)} comparisons of {forms} on {backends}"
        return f"{self.effort.value}, {compared} with float64{built}"

    def as_dict(self) -> dict[str, object]:
        """For JSON; an error that is no finite number is null."""
        return {
            "ok": self.ok,
            "effort": self.effort.value,
            "summary": self.summary,
            "problem": self.problem or None,
            "skipped": list(self.skipped),
            "comparisons": [_with_ok(c) for c in self.comparisons],
            "builds": [_with_ok(b) for b in self.builds],
        }


def comparison_from(data: Mapping[str, Any]) -> Comparison:
    return Comparison(**{f.name: data[f.name] for f in fields(Comparison)})


def build_from(data: Mapping[str, Any]) -> Build:
    return Build(**{f.name: data[f.name] for f in fields(Build)})


class VerificationFailed(Exception):
    """A module differs from its spec; it is not handed out. `verdict` says where."""

    def __init__(self, verdict: Verdict):
        super().__init__(verdict.summary)
        self.verdict = verdict


def _row(key: tuple[str, str, str], group: list[Comparison]) -> Row:
    worst = max(group, key=_badness)
    probes = tuple(dict.fromkeys(c.probe for c in group))
    return Row(*key, worst, probes, tuple(dict.fromkeys(c.probe for c in group if not c.ok)))


def _badness(c: Comparison) -> float:
    if not math.isfinite(c.error):
        return math.inf
    return c.error / c.bound if c.bound else c.error


def _with_ok(part: Comparison | Build) -> dict[str, object]:
    data = asdict(part) | {"ok": part.ok}
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in data.items()
    }


def _listed(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))
