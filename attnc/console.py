"""How commands talk and end: messages, JSON, progress, and every way out as an exit status."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from types import TracebackType

import click

from attnc.diagnostics import Diagnostic, SpecError
from attnc.files import FileProblem

DONE, DIFFERENCE, REFUSED, INTERRUPTED = 0, 1, 2, 130


def run(command: Callable[[], object]) -> int:
    """Carry out a command and return its exit status. No traceback reaches the user."""
    try:
        result = command()
        sys.stdout.flush()
        return result if isinstance(result, int) else DONE
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return REFUSED
    except (KeyboardInterrupt, click.Abort):
        say("attnc: interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except SpecError as refused:
        show(refused.diagnostics)
        return REFUSED
    except (FileProblem, OSError) as problem:
        say(str(problem))
        return REFUSED
    except Exception as error:
        return _internal_error(error)


def _internal_error(error: Exception) -> int:
    if os.environ.get("ATTNC_TRACEBACK"):
        traceback.print_exception(error)
    first = str(error).strip().splitlines()[:1]
    what = f"{type(error).__name__}: {first[0][:200]}" if first else type(error).__name__
    say(
        "attnc: internal error, please report it with the spec and the command line "
        f"(ATTNC_TRACEBACK=1 shows where it happened): {what}"
    )
    return REFUSED


def say(text: str) -> None:
    """A line on standard error."""
    click.echo(text, err=True)


def show(diagnostics: Iterable[Diagnostic]) -> None:
    for diagnostic in diagnostics:
        say(str(diagnostic))


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2))


def diagnostic_json(diagnostic: Diagnostic) -> dict[str, object]:
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "file": diagnostic.span.source.name,
        "line": diagnostic.span.line,
        "column": diagnostic.span.column,
        "message": diagnostic.message,
        "hint": diagnostic.hint or None,
    }


class Progress:
    """A line on a terminal while something takes its time; nothing in a pipe."""

    def __init__(self, text: str):
        self.text = text if sys.stderr.isatty() else ""

    def __enter__(self) -> None:
        if self.text:
            click.echo(f"{self.text} ...", err=True, nl=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self.text:
            click.echo("\r\x1b[K", err=True, nl=False)
