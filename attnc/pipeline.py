"""The way of a spec through the compiler, one stage after the other.

text --resolve--> AttnSpec --analyse--> Facts --lower--> ModulePlan --render--> module
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from attnc.diagnostics import Diagnostic, SpecError, errors
from attnc.files import write_module
from attnc.ir.facts import Facts
from attnc.ir.spec import AttnSpec
from attnc.passes.analyse import analyse
from attnc.passes.resolve import resolve
from attnc.source import Source


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller may ask for beside the spec. `overrides` are NAME=VALUE, as with --set."""

    overrides: tuple[tuple[str, str], ...] = ()
    reference_only: bool = False


def options(overrides: Mapping[str, object], form: str | None, reference_only: bool) -> Options:
    """Options from the words that a caller writes."""
    pairs = [(name, str(value)) for name, value in overrides.items()]
    if form is not None:
        pairs.append(("form", form))
    return Options(tuple(pairs), reference_only)


@dataclass(frozen=True, slots=True)
class Checked:
    """What a spec says, what follows from it, and every finding."""

    spec: AttnSpec | None
    facts: Facts | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def ok(self) -> bool:
        return self.facts is not None and not errors(self.diagnostics)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A generated module: its text, the spec as the compiler understood it, and every finding."""

    source: str
    ir: AttnSpec
    facts: Facts
    diagnostics: tuple[Diagnostic, ...]

    @property
    def name(self) -> str:
        return self.ir.name

    def write(self, path: str | Path | None = None) -> Path:
        """Write the module: to a file, into a folder, or to NAME.py in the current folder."""
        target = Path(path) if path is not None else Path()
        if target.is_dir():
            target = target / f"{self.name}.py"
        write_module(target, self.source)
        return target


def check(source: Source, overrides: Mapping[str, str] | None = None) -> Checked:
    """Everything that can be said of a spec without generating anything."""
    spec, found = resolve(source, dict(overrides or {}))
    if spec is None or errors(found):
        return Checked(None, None, tuple(found))
    facts, more = analyse(spec)
    return Checked(spec, facts, (*found, *more))


def compile_text(source: Source, options: Options) -> Compiled:
    """A spec's module. Raises SpecError with every finding."""
    checked = check(source, dict(options.overrides))
    if not checked.ok or checked.spec is None or checked.facts is None:
        raise SpecError(checked.diagnostics)
    return _generate(checked.spec, checked.facts, checked.diagnostics, options)


def _generate(
    spec: AttnSpec, facts: Facts, found: tuple[Diagnostic, ...], options: Options
) -> Compiled:
    from attnc.emit.render import render
    from attnc.passes.lower import lower

    if not options.reference_only:
        raise SpecError((*found, _no_kernels(spec)))
    return Compiled(render(lower(spec, facts)), spec, facts, found)


def _no_kernels(spec: AttnSpec) -> Diagnostic:
    return Diagnostic(
        "E401",
        f"{spec.name} is a legal spec, and its kernels cannot be generated yet",
        spec.span("name"),
        "`--reference-only` (in Python `reference_only=True`) generates its reference",
    )
