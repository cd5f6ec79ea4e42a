"""Source -> the one canonical text of a spec: comments kept, order kept, brackets as needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from attnc.diagnostics import SpecError
from attnc.ir.ops import ATOM, COMPARISONS, NEGATION, POWER, Op
from attnc.source import Source
from attnc.syntax import tree
from attnc.syntax.parse import parse

INDENT = "    "
WIDTH = 100
COMMENT_COLUMN = 39
LONGEST_ALIGNED = 10


@dataclass(frozen=True, slots=True)
class Line:
    """A clause or a comment, and where it stood."""

    start: int
    end: int
    head: str  # what stands before `=`, or all there is
    value: tree.Node | None = None
    comment: str = ""


def format_source(source: Source) -> str:
    """The canonical text. Raises SpecError where the source is no spec."""
    attention, found = parse(source)
    if attention is None or found:
        raise SpecError(found)
    comments = [(m.start(), m.end()) for m in re.finditer("#[^\n]*", source.text)]
    opening = source.text.index("{", attention.name.span.end)
    body_end = attention.span.end
    before = [c for c in comments if c[0] < opening]
    inside = [c for c in comments if opening < c[0] < body_end]
    after = [c for c in comments if c[0] >= body_end]
    first = Line(opening, opening + 1, f"attention {attention.name.text} {{")
    trailing_first = [
        c
        for c in inside
        if _same_line(source, opening, c[0])
        and not any(clause.span.start < c[0] for clause in attention.clauses)
    ]
    if trailing_first:
        inside = inside[1:]
        first = Line(
            opening, trailing_first[0][1], first.head, comment=_comment(source, trailing_first[0])
        )
    lines = _place(source, attention.clauses, inside)
    width = max((len(line.head) for line in lines if _aligned(line)), default=0)
    text = [
        *_written(source, [Line(*c, _comment(source, c)) for c in before], 0, ""),
        _with_comment(first.head, first.comment),
        *_written(source, lines, width, INDENT),
        "}",
        *_written(source, [Line(*c, _comment(source, c)) for c in after], 0, ""),
    ]
    return "\n".join(text) + "\n"


def _place(
    source: Source, clauses: Sequence[tree.Clause], comments: Sequence[tuple[int, int]]
) -> list[Line]:
    """Clauses and comments in the order of the text; a comment inside a clause goes above it."""
    lines: list[Line] = []
    waiting = list(comments)
    for clause in clauses:
        end, trailing = clause.span.end, ""
        while waiting and waiting[0][0] < end:
            comment = waiting.pop(0)
            lines.append(Line(comment[0], comment[1], _comment(source, comment)))
        if waiting and _same_line(source, end, waiting[0][0]):
            comment = waiting.pop(0)
            trailing, end = _comment(source, comment), comment[1]
        lines.append(Line(clause.span.start, end, head(clause), _value(clause), trailing))
    lines.extend(Line(c[0], c[1], _comment(source, c)) for c in waiting)
    return lines


def _written(source: Source, lines: Sequence[Line], width: int, indent: str) -> list[str]:
    text: list[str] = []
    for n, line in enumerate(lines):
        if n and re.search(r"\n[ \t\r]*\n", source.text[lines[n - 1].end : line.start]):
            text.append("")
        code = line.head
        if line.value is not None:
            padded = code.ljust(width) if _aligned(line) else code
            code = _assignment(f"{indent}{padded} = ", line.value)
        else:
            code = indent + code
        text.append(_with_comment(code, line.comment))
    return text


def _aligned(line: Line) -> bool:
    declares = line.head.startswith(("param ", "#"))
    return line.value is not None and len(line.head) <= LONGEST_ALIGNED and not declares


def _with_comment(code: str, comment: str) -> str:
    if not comment:
        return code
    last = code.rsplit("\n", 1)[-1]
    return code + " " * max(2, COMMENT_COLUMN - len(last)) + comment


def _comment(source: Source, place: tuple[int, int]) -> str:
    return source.text[place[0] : place[1]].rstrip()


def _same_line(source: Source, left: int, right: int) -> bool:
    return "\n" not in source.text[left:right]


def head(clause: tree.Clause) -> str:
    """What stands before a clause's `=`."""
    match clause:
        case tree.Setting(name):
            return name.text
        case tree.Let(name):
            return f"let {name.text}"
        case tree.Function(name, parameters):
            shown = [
                p.name.text if p.default is None else f"{p.name.text} = {show(p.default)}"
                for p in parameters
            ]
            return f"{name.text}({', '.join(shown)})"
        case tree.Declaration(role, names, kind, dims):
            words = "" if kind is None else f"{kind.text} "
            axes = ", ".join(show(dim) for dim in dims)
            return f"{role.text} {', '.join(n.text for n in names)} : {words}[{axes}]"


def _value(clause: tree.Clause) -> tree.Node | None:
    match clause:
        case tree.Setting(value=value) | tree.Let(value=value):
            return value
        case tree.Function(body=body):
            return body
        case tree.Declaration(initial=initial):
            return initial


def _assignment(start: str, value: tree.Node) -> str:
    """`start` and the value; a long chain of one operator goes on in further lines."""
    line = start + show(value)
    if (
        len(line) <= WIDTH
        or not isinstance(value, tree.Infix)
        or value.op in (Op.POW, *COMPARISONS)
    ):
        return line
    lines, current = [], start
    for part in _chain(value):
        if current.strip() and current != start and len(current) + len(part) > WIDTH:
            lines.append(current.rstrip())
            current = " " * len(start)
        current += part + " "
    return "\n".join([*lines, current.rstrip()])


def _chain(value: tree.Infix) -> list[str]:
    """The operands of a chain of operators of one level, each with its operator behind it."""
    level = _level(value)
    parts: list[str] = []
    right = show(value.right, level + 1)
    node: tree.Node = value
    while isinstance(node, tree.Infix) and _level(node) == level:
        parts.append(right)
        left = node.left
        is_chain = isinstance(left, tree.Infix) and _level(left) == level
        right = show(left.right, level + 1) if is_chain and isinstance(left, tree.Infix) else (
            show(left, level)
        )  # fmt: skip
        right += f" {node.op.info.spelling}"
        node = left
    return [right, *reversed(parts)]


def show(node: tree.Node, level: int = 0) -> str:
    """An expression where operators looser than `level` need brackets."""
    text = _show(node)
    return f"({text})" if _level(node) < level else text


def _level(node: tree.Node) -> int:
    match node:
        case tree.Prefix(op=op) | tree.Infix(op=op):
            return op.info.precedence or ATOM
    return ATOM


def _show(node: tree.Node) -> str:
    match node:
        case tree.Number():
            return node.span.text
        case tree.Name(text):
            return text
        case tree.Prefix(op, operand):
            sign = "-" if op is Op.NEG else "not "
            return sign + show(operand, _level(node))
        case tree.Infix(Op.POW, left, right):
            return f"{show(left, ATOM)}^{_exponent(right)}"
        case tree.Infix(op, left, right):
            level = _level(node)
            first = show(left, level + 1 if op in COMPARISONS else level)
            return f"{first} {op.info.spelling} {show(right, level + 1)}"
        case tree.Apply(function, arguments):
            return f"{function.text}({', '.join(_argument(a) for a in arguments)})"
        case tree.Subscript(base, items):
            return f"{show(base, ATOM)}[{', '.join(show(item) for item in items)}]"
        case tree.Slice(start, stop, step):
            ends = ":".join("" if end is None else show(end) for end in (start, stop))
            return ends if step is None else f"{ends}:{show(step)}"
    raise TypeError(node)


def _exponent(node: tree.Node) -> str:
    """`2^-3` needs no brackets, although `-` binds more loosely than `^`."""
    if isinstance(node, tree.Prefix) and node.op is Op.NEG:
        return "-" + _exponent(node.operand)
    return show(node, POWER)


def _argument(argument: tree.Argument) -> str:
    value = show(argument.value)
    return value if argument.name is None else f"{argument.name.text} = {value}"


assert NEGATION < POWER < ATOM
