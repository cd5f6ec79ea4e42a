"""Diagnostic: one finding about a spec, with its place, what is wrong and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from attnc.source import Span


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


# every code has a refused (or warned about) spec in tests/specs/, and the reverse: a test compares
CODES: dict[str, tuple[Severity, str]] = {}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A row of CODES at a place. `hint` says what to write instead; it may be empty."""

    code: str
    message: str
    span: Span
    hint: str = ""

    @property
    def severity(self) -> Severity:
        return CODES[self.code][0]

    def __str__(self) -> str:
        place = f"{self.span.source.name}:{self.span.line}:{self.span.column}"
        lines = [f"{place}: {self.severity.value} {self.code}: {self.message}"]
        lines.append(self.span.excerpt())
        if self.hint:
            lines.append(f"     = hint: {self.hint}")
        return "\n".join(lines)


class SpecError(Exception):
    """A spec was refused. `.diagnostics` holds every finding, the errors among them."""

    def __init__(self, diagnostics: Iterable[Diagnostic]):
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(str(d) for d in self.diagnostics))


def errors(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [d for d in diagnostics if d.severity is Severity.ERROR]
