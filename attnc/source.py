"""Text with places: a Source is a named text, a Span is a stretch of it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property

LONGEST_EXCERPT = 200  # characters of a line that a message shows


@dataclass(frozen=True)
class Source:
    """A text and the name that messages call it by: the path as the user wrote it."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0] + [n + 1 for n, char in enumerate(self.text) if char == "\n"]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both counted from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)]


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` up to `end` of a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.position(self.start)[1]

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        return Span(self.source, min(self.start, other.start), max(self.end, other.end))

    def excerpt(self) -> str:
        """The source line with the place underlined."""
        line = self.source.line(self.line).expandtabs(1)
        first = max(0, self.column - 1 - LONGEST_EXCERPT // 2)
        line = line[first : first + LONGEST_EXCERPT]
        column = self.column - 1 - first
        width = max(1, min(self.end - self.start, len(line) - column))
        number = f"{self.line:>4}"
        return f"{number} | {line}\n{' ' * len(number)} | {' ' * column}{'^' * width}"
