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
CODES: dict[str, tuple[Severity, str]] = {
    # syntax
    "E101": (Severity.ERROR, "an operator or character that the language does not have"),
    "E102": (Severity.ERROR, "a bracket without its partner"),
    "E103": (Severity.ERROR, "a clause that cannot be read"),
    "E104": (Severity.ERROR, "a file that is not one attention in braces"),
    "E105": (Severity.ERROR, "a chain of comparisons"),
    "E106": (Severity.ERROR, "a file, a nesting or a number over the limit"),
    # names, types, shapes, clauses
    "E201": (Severity.ERROR, "an unknown name"),
    "E202": (Severity.ERROR, "an unknown clause"),
    "E203": (Severity.ERROR, "a clause or a name given twice"),
    "E204": (Severity.ERROR, "a name that is taken or malformed"),
    "E205": (Severity.ERROR, "wrong arguments of a function"),
    "E206": (Severity.ERROR, "sizes that differ"),
    "E207": (Severity.ERROR, "a row where a number is wanted"),
    "E208": (Severity.ERROR, "a number where a row is wanted"),
    "E209": (Severity.ERROR, "a boolean where a number is wanted, or the reverse"),
    "E210": (Severity.ERROR, "a name that this clause cannot read"),
    "E211": (Severity.ERROR, "a tensor read without the index that it needs, or with a wrong one"),
    "E212": (Severity.ERROR, "an index that is no integer"),
    "E213": (Severity.ERROR, "a position without an alignment"),
    "E214": (Severity.ERROR, "a value that the clause does not have"),
    "E215": (Severity.ERROR, "a required clause that is missing"),
    "E216": (Severity.ERROR, "head counts that do not divide"),
    "E217": (Severity.ERROR, "a definition by itself"),
    "E218": (Severity.ERROR, "a constant that divides by zero or is not finite"),
    "E219": (Severity.ERROR, "an expression that grows over the limit"),
    "E220": (Severity.ERROR, "a declaration that cannot be"),
    "E221": (Severity.ERROR, "a whole number that is not known at compile time"),
    "E222": (Severity.ERROR, "a matrix elsewhere than in matmul"),
    "E223": (Severity.ERROR, "a value set from outside that the spec does not have"),
    "W201": (Severity.WARNING, "a dim that is used once"),
    "W202": (Severity.WARNING, "a tensor, function or number that is not used"),
    # what the analysis finds
    "E301": (Severity.ERROR, "weights that can be negative under the normalizer"),
    "E302": (Severity.ERROR, "a form that does not exist"),
    "E303": (Severity.ERROR, "a decay without j <= i in the mask"),
    "E304": (Severity.ERROR, "a decay outside (0, 1]"),
    "E305": (Severity.ERROR, "a decay per channel on a similarity that is no single product"),
    "E306": (Severity.ERROR, "a decay with another number of channels than the key's row"),
    "E307": (Severity.ERROR, "a delta update with a normalizer"),
    "E308": (Severity.ERROR, "a delta update on a similarity that is no single product"),
    "E309": (Severity.ERROR, "a delta update without j <= i in the mask"),
    "W301": (Severity.WARNING, "exp of a pair without the normalizer"),
    "W302": (Severity.WARNING, "a delta update with keys that are not normalized"),
    "W303": (Severity.WARNING, "a mask that leaves out `causal`, or nothing at all"),
    "N301": (Severity.NOTE, "a spec that no form computes"),
    # what the compiler cannot do yet: `check` says so, `compile` refuses
    "N302": (Severity.NOTE, "a legal spec that has no kernels yet"),
    "E401": (Severity.ERROR, "a legal spec that has no kernels yet"),
}


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
