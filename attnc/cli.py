"""The command `attnc`. Each command imports its own stages, so that `check` starts fast."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from attnc.console import (
    DIFFERENCE,
    DONE,
    REFUSED,
    Progress,
    diagnostic_json,
    print_json,
    run,
    say,
    show,
)
from attnc.diagnostics import Diagnostic, SpecError
from attnc.files import (
    FileProblem,
    read_source,
    write_atomically,
    write_module,
)
from attnc.resources import folder
from attnc.verify.verdict import Verdict, VerificationFailed
from attnc.version import __version__

if TYPE_CHECKING:
    from attnc.pipeline import Checked, Compiled, Options
    from attnc.source import Source


def main() -> None:
    """The console script."""
    arguments = sys.argv[1:]
    sys.exit(run(lambda: attnc.main(arguments, prog_name="attnc", standalone_mode=False)))


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="attnc", message="%(prog)s %(version)s")
def attnc() -> None:
    """A compiler for attention: a spec of ten lines in, one verified module out.

    Exit status: 0 done; 1 a verification found a difference, or fmt --check would change a file;
    2 the spec, the command line or a file was refused; 130 interrupted.
    """


Command = Callable[..., Any]
SPEC = click.Path(path_type=Path)
specs = click.argument("specs", metavar="SPEC...", nargs=-1, required=True, type=SPEC)
one_spec = click.argument("spec", metavar="SPEC", type=SPEC)
as_json = click.option(
    "--json", "as_json", is_flag=True, help="One JSON object on standard output."
)


def _pairs(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE options as a dict."""
    pairs: dict[str, str] = {}
    for value in values:
        name, equals, number = (part.strip() for part in value.partition("="))
        if not (name and equals and number):
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", param=option)
        pairs[name] = number
    return pairs


settings = click.option(
    "--set",
    "overrides",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_pairs,
    help="Override a let or a scalar clause; may be repeated.",
)


default_form = click.option(
    "--form", help="The module's default form: auto, parallel, recurrent or chunkwise."
)


@attnc.command()
@specs
@click.option("-o", "--output", type=SPEC, help="The module to write; default NAME.py beside SPEC.")
@default_form
@settings
@click.option("--verify", type=click.Choice(["quick", "full", "none"]), default="quick",
              show_default=True, help="What is verified before the module is written.")  # fmt: skip
@click.option("--reference-only", is_flag=True, help="The reference alone, without kernels.")
def compile(
    specs: tuple[Path, ...],
    output: Path | None,
    form: str | None,
    overrides: dict[str, str],
    verify: str,
    reference_only: bool,
) -> int:
    """Verify each spec's module, then write it."""
    from attnc.pipeline import options

    if output is not None and len(specs) > 1 and not output.is_dir():
        raise click.UsageError("-o names one file, but there are several specs; a folder would do")
    chosen = options(overrides, form, reference_only, verify)
    return max([_compile_one(spec, output, chosen) for spec in specs])


def _compile_one(spec: Path, output: Path | None, chosen: Options) -> int:
    from attnc.pipeline import compile_text

    try:
        source = read_source(spec)
        with Progress(f"{spec}: compiling and verifying"):
            compiled = compile_text(source, chosen)
        show(compiled.diagnostics)
        target = _target(spec, output, compiled)
        write_module(target, compiled.source)
    except SpecError as refused:
        show(refused.diagnostics)
        return REFUSED
    except VerificationFailed as failed:
        _tables(failed.verdict, sys.stderr, only_failures=True)
        say(f"{spec}: not written: {failed.verdict.summary}")
        return DIFFERENCE
    except FileProblem as problem:
        say(str(problem))
        return REFUSED
    outcome = f" (verification: {compiled.verdict.summary})" if compiled.verdict else ""
    click.echo(f"{target}: written{outcome}")
    return DONE


@attnc.command()
@click.argument("file", metavar="SPEC|MODULE", type=SPEC)
@click.option("--full", is_flag=True, help="More probes, and builds for three GPUs.")
@default_form
@settings
@as_json
def verify(
    file: Path, full: bool, form: str | None, overrides: dict[str, str], as_json: bool
) -> int:
    """Compare a spec's module, or a generated MODULE as it stands, with its reference.

    A module that was compiled with --set or --form is verified with the same.
    """
    from attnc.pipeline import options, verify_file

    chosen = options(overrides, form, False, "full" if full else "quick")
    with Progress(f"{file}: verifying"):
        verdict = verify_file(file, chosen)
    if as_json:
        print_json(verdict.as_dict())
    else:
        _tables(verdict, sys.stdout)
        say(f"{file}: {verdict.summary}")
    return DONE if verdict.ok else DIFFERENCE


def _tables(verdict: Verdict, file: IO[str], only_failures: bool = False) -> None:
    from attnc.verify.table import print_tables

    print_tables(verdict, file, only_failures)


def _target(spec: Path, output: Path | None, compiled: Compiled) -> Path:
    if output is None:
        return spec.parent / f"{compiled.name}.py"
    return output / f"{compiled.name}.py" if output.is_dir() else output


@attnc.command()
@specs
@settings
@as_json
def check(specs: tuple[Path, ...], overrides: dict[str, str], as_json: bool) -> int:
    """Say what is wrong with each spec, and generate nothing."""
    reports = [_check_one(spec, overrides) for spec in specs]
    if as_json:
        print_json({"files": [report.as_json() for report in reports]})
        return max(report.status for report in reports)
    for report in reports:
        if report.problem:
            say(report.problem)
        show(report.diagnostics)
    return max(report.status for report in reports)


@dataclass(frozen=True, slots=True)
class Report:
    """What `check` found in one file."""

    file: Path
    name: str | None
    problem: str
    diagnostics: tuple[Diagnostic, ...]
    ok: bool

    @property
    def status(self) -> int:
        return DONE if self.ok else REFUSED

    def as_json(self) -> dict[str, object]:
        return {
            "file": str(self.file),
            "attention": self.name,
            "ok": self.ok,
            "problem": self.problem or None,
            "diagnostics": [diagnostic_json(d) for d in self.diagnostics],
        }


def _check_one(path: Path, overrides: dict[str, str]) -> Report:
    from attnc.pipeline import check

    try:
        checked = check(read_source(path), overrides)
    except FileProblem as problem:
        return Report(path, None, str(problem), (), False)
    name = checked.spec.name if checked.spec else None
    return Report(path, name, "", checked.diagnostics, checked.ok)


def _checked(source: Source, overrides: dict[str, str]) -> Checked:
    """A spec without errors; its warnings are shown. Raises SpecError."""
    from attnc.pipeline import check

    checked = check(source, overrides)
    if not checked.ok:
        raise SpecError(checked.diagnostics)
    show(checked.diagnostics)
    return checked


@attnc.command()
@one_spec
@click.option("--L", "rows", type=click.IntRange(0), default=4096, show_default=True)
@click.option("--S", "keys", type=click.IntRange(0), help="Default: L.")
@click.option(
    "--d_k", "d_k", type=click.IntRange(1), default=None, help="Default 64, or the spec's."
)
@click.option(
    "--d_v", "d_v", type=click.IntRange(1), default=None, help="Default 64, or the spec's."
)
@click.option("--size", "sizes", metavar="NAME=N", multiple=True, callback=_pairs,
              help="The size of a dim that the spec names; B and H too.")  # fmt: skip
@settings
@as_json
def explain(
    spec: Path,
    rows: int,
    keys: int | None,
    d_k: int | None,
    d_v: int | None,
    sizes: dict[str, str],
    overrides: dict[str, str],
    as_json: bool,
) -> int:
    """What was decided about a spec, and why."""
    from attnc.explain import explain as explanation
    from attnc.explain_text import as_text

    checked = _checked(read_source(spec), overrides)
    assert checked.spec is not None and checked.facts is not None
    try:
        numbers = {name: int(number) for name, number in sizes.items()}
    except ValueError as error:
        raise click.UsageError(f"--size wants a whole number: {error}") from None
    numbers |= {"L": rows, "S": rows if keys is None else keys}
    numbers |= {name: n for name, n in (("d_k", d_k), ("d_v", d_v)) if n is not None}
    result = explanation(checked.spec, checked.facts, numbers)
    if as_json:
        print_json(result.as_dict())
    else:
        click.echo(as_text(result))
    return DONE


@attnc.command()
@specs
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit 1 if it would.")
def fmt(specs: tuple[Path, ...], only_check: bool) -> int:
    """Bring specs into the one canonical form."""
    return max([_format_one(spec, only_check) for spec in specs])


def _format_one(path: Path, only_check: bool) -> int:
    from attnc.syntax.format import format_source

    try:
        source = read_source(path)
        text = format_source(source)
        if text == source.text:
            return DONE
        if only_check:
            click.echo(f"{path}: would change")
            return DIFFERENCE
        write_atomically(path, text)
    except SpecError as refused:
        show(refused.diagnostics)
        return REFUSED
    except FileProblem as problem:
        say(str(problem))
        return REFUSED
    click.echo(f"{path}: formatted")
    return DONE


@attnc.command()
@click.argument("name", required=False)
@click.option("-o", "--output", type=SPEC, help="Write it to a file that does not exist yet.")
def examples(name: str | None, output: Path | None) -> int:
    """List the shipped specs, or write one out."""
    shipped = {path.stem: path for path in sorted(folder("examples").glob("*.attn"))}
    if name is None:
        for stem, path in shipped.items():
            first = path.read_text(encoding="utf-8").splitlines()[0]
            click.echo(f"{stem:<16} {first.lstrip('# ')}")
        return DONE
    stem = name.removesuffix(".attn")
    if stem not in shipped:
        raise click.UsageError(f"no example is called {name!r}; there are {', '.join(shipped)}")
    text = shipped[stem].read_text(encoding="utf-8")
    if output is None:
        click.echo(text, nl=False)
    elif output.exists():
        raise FileProblem(f"{output}: not overwritten: it exists")
    else:
        write_atomically(output, text)
        click.echo(f"{output}: written")
    return DONE


@attnc.command(name="help")
@click.argument("word", required=False)
@click.pass_context
def help_(context: click.Context, word: str | None) -> int:
    """Explain a word of the language, or a prelude function with its source."""
    from attnc.prelude import describe, known_words

    if word is None:
        assert context.parent is not None
        click.echo(context.parent.get_help())
        return DONE
    text = describe(word)
    if text is None:
        near = get_close_matches(word, sorted(known_words()), n=3)
        instead = f"; did you mean {' or '.join(near)}?" if near else ""
        raise click.UsageError(f"{word!r} is no word of the language{instead}")
    click.echo(text)
    return DONE
