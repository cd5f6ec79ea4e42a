"""The way of a spec through the compiler, one stage after the other.

text --resolve--> AttnSpec --analyse--> Facts --lower--> ModulePlan --render--> module
     --verify--> Verdict
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from attnc.diagnostics import Diagnostic, SpecError, errors
from attnc.files import FileProblem, is_generated, read_module, read_source, write_module
from attnc.ir.facts import Facts
from attnc.ir.spec import AttnSpec
from attnc.passes.analyse import analyse
from attnc.passes.kernels import Obstacle, find_obstacle
from attnc.passes.resolve import resolve
from attnc.source import Source
from attnc.verify.verdict import Effort, Verdict, VerificationFailed


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller may ask for beside the spec. `overrides` are NAME=VALUE, as with --set."""

    overrides: tuple[tuple[str, str], ...] = ()
    reference_only: bool = False
    effort: Effort = Effort.QUICK


def options(
    overrides: Mapping[str, object], form: str | None, reference_only: bool, verify: str
) -> Options:
    """Options from the words that a caller writes."""
    efforts = {effort.value: effort for effort in Effort}
    if verify not in efforts:
        raise ValueError(f"verify is one of {', '.join(efforts)}, not {verify!r}")
    pairs = [(name, str(value)) for name, value in overrides.items()]
    if form is not None:
        pairs.append(("form", form))
    return Options(tuple(pairs), reference_only, efforts[verify])


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
    """A generated module: its text, the spec as the compiler understood it, and every finding.

    `verdict` is None where nothing was verified.
    """

    source: str
    ir: AttnSpec
    facts: Facts
    diagnostics: tuple[Diagnostic, ...]
    verdict: Verdict | None = None

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
    obstacle = find_obstacle(spec, facts) if facts is not None and facts.form_names else None
    if obstacle is not None:
        more = [*more, _without_kernels("N302", obstacle)]
    return Checked(spec, facts, (*found, *more))


def compile_text(source: Source, options: Options) -> Compiled:
    """A spec's module. Raises SpecError with every finding, or VerificationFailed."""
    checked = check(source, dict(options.overrides))
    if not checked.ok or checked.spec is None or checked.facts is None:
        raise SpecError(checked.diagnostics)
    compiled = _generate(checked.spec, checked.facts, checked.diagnostics, options)
    if options.reference_only:  # what others are measured by has nothing to be compared with
        return compiled
    return _verified(compiled, options.effort)


def _generate(
    spec: AttnSpec, facts: Facts, found: tuple[Diagnostic, ...], options: Options
) -> Compiled:
    from attnc.emit.render import render
    from attnc.passes.lower import lower

    obstacle = find_obstacle(spec, facts)
    if obstacle is not None and not options.reference_only:
        found = tuple(d for d in found if d.code != "N302")
        raise SpecError((*found, _without_kernels("E401", obstacle)))
    return Compiled(render(lower(spec, facts, options.reference_only)), spec, facts, found)


def _verified(compiled: Compiled, effort: Effort) -> Compiled:
    """The module with the verification's outcome in its header. Raises VerificationFailed."""
    from attnc.verify.generated import with_outcome

    if effort is Effort.NONE:
        return replace(compiled, source=with_outcome(compiled.source, effort.value))
    verdict = verify_module(compiled.source, compiled.ir, compiled.facts, effort)
    if not verdict.ok:
        raise VerificationFailed(verdict)
    source = with_outcome(compiled.source, verdict.summary)
    return replace(compiled, source=source, verdict=verdict)


def verify_file(path: Path, options: Options) -> Verdict:
    """The verdict on a spec's module, or on a generated module in a file. Raises SpecError, and
    FileProblem for a module that was not made from its docstring with these options."""
    if not is_generated(path):
        quiet = replace(options, effort=Effort.NONE)
        made = compile_text(read_source(path), quiet)
        return verify_module(made.source, made.ir, made.facts, options.effort, here_too=True)
    text = read_module(path)
    checked = _checked_as_in(text, path, options)
    return verify_module(text, *checked, options.effort, here_too=True)


def _checked_as_in(text: str, path: Path, options: Options) -> tuple[AttnSpec, Facts]:
    from attnc.passes.lower import spec_hash
    from attnc.verify.generated import hash_in, spec_in

    found = spec_in(text)
    if found is None:
        raise FileProblem(f"{path}: has no spec in its docstring any more")
    checked = check(Source(str(path), found), dict(options.overrides))
    if not checked.ok or checked.spec is None or checked.facts is None:
        raise SpecError(checked.diagnostics)
    if spec_hash(checked.spec) != hash_in(text):
        raise FileProblem(
            f"{path}: was not compiled from the spec in its docstring with these settings: "
            "give the --set and --form that it was compiled with, or compile it again"
        )
    return checked.spec, checked.facts


def verify_module(
    text: str, spec: AttnSpec, facts: Facts, effort: Effort, here_too: bool = False
) -> Verdict:
    """A generated module against its own reference, on probes designed from its spec; with
    `here_too` on this machine's GPU as well, where there is one."""
    from attnc.verify.verify import verify

    return verify(text, spec, facts, effort, here_too)


def _without_kernels(code: str, obstacle: Obstacle) -> Diagnostic:
    message = f"the spec is legal, and there are no kernels yet for {obstacle.reason}"
    hint = "`attnc compile --reference-only` (in Python `reference_only=True`) writes its reference"
    return Diagnostic(code, message, obstacle.span, hint)
