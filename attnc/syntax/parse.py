"""Source -> tree.Attention and diagnostics. A clause that cannot be read hides no other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from lark import Lark, Token, UnexpectedToken

from attnc.diagnostics import Diagnostic
from attnc.resources import folder
from attnc.source import Source, Span
from attnc.syntax import tree
from attnc.syntax.build import Builder
from attnc.syntax.layout import MAX_NESTING, Layout
from attnc.syntax.mistakes import CLAUSES, DECLARATIONS, FILES, Mistake
from attnc.syntax.table import parser

MAX_BYTES = 1 << 20
STARTS = ["file", "prelude", "clause", "expression", "foreign"]
END_OF_TEXT = "the end of the text"


@cache
def _lark() -> Lark:
    return parser((folder("grammar") / "attn.lark").read_text(encoding="utf-8"), STARTS)


def parse(source: Source) -> tuple[tree.Attention | None, list[Diagnostic]]:
    """The attention of a file, without the clauses that cannot be read, and what is wrong."""
    tokens, found = _tokens(source)
    if tokens is None:
        return None, found
    try:
        return _checked(_feed(source, "file", tokens), found)
    except UnexpectedToken:
        broken = _broken_clauses(source, tokens, found)
    tokens = [t for n, t in enumerate(tokens) if n not in broken]
    try:
        return _checked(_feed(source, "file", tokens), found)
    except UnexpectedToken as error:
        found.append(_explain(source, "file", tokens, error))
        return None, found


def parse_expression(source: Source) -> tuple[tree.Node | None, list[Diagnostic]]:
    """A text that is one expression."""
    return _parse_alone(source, "expression")


def parse_prelude(source: Source) -> tuple[tree.Clause, ...]:
    """A text of clauses without an attention around them. It must be right."""
    clauses, found = _parse_alone(source, "prelude")
    if clauses is None or found:
        raise ValueError("\n".join(map(str, found)))
    return tuple(clauses)


def _parse_alone(source: Source, start: str) -> tuple[Any, list[Diagnostic]]:
    tokens, found = _tokens(source)
    if tokens is None:
        return None, found
    if start == "expression":
        tokens = [t for t in tokens if t.type != "_NL"]
    try:
        result = _feed(source, start, tokens)
    except UnexpectedToken as error:
        return None, [*found, _explain(source, start, tokens, error)]
    if isinstance(result, tree.Node) and (deep := _too_deep([result])):
        return None, [*found, deep]
    return result, found


def _tokens(source: Source) -> tuple[list[Token] | None, list[Diagnostic]]:
    if len(source.text.encode("utf-8", "replace")) > MAX_BYTES:
        message = "the file is larger than 1 MiB"
        return None, [Diagnostic("E106", message, Span(source, 0, 1), "a spec has a few lines")]
    layout = Layout(source, list(_lark().lex(source.text)))
    layout.run()
    return layout.tokens, layout.diagnostics


def _feed(source: Source, start: str, tokens: Iterable[Token]) -> Any:
    """What the tokens mean. Raises UnexpectedToken."""
    parser, last = _lark().parse_interactive(start=start), Token("_NL", "", 0, end_pos=0)
    for token in tokens:
        parser.feed_token(token)
        last = token
    return Builder(source).transform(parser.feed_eof(last))  # type: ignore[no-untyped-call]


def _checked(
    attention: tree.Attention, found: list[Diagnostic]
) -> tuple[tree.Attention | None, list[Diagnostic]]:
    """Refuse what later stages, which recurse, could not walk."""
    deep = _too_deep(node for clause in attention.clauses for node in _nodes(clause))
    return (None, [*found, deep]) if deep else (attention, found)


def _nodes(clause: tree.Clause) -> list[tree.Node]:
    match clause:
        case tree.Function(parameters=parameters, body=body):
            return [*(p.default for p in parameters if p.default is not None), body]
        case tree.Declaration(dims=dims, initial=initial):
            return [*dims, *([] if initial is None else [initial])]
        case tree.Setting(value=value) | tree.Let(value=value):
            return [value]


def _too_deep(nodes: Iterable[tree.Node]) -> Diagnostic | None:
    for node in nodes:
        if node.depth > MAX_NESTING:
            while node.depth > MAX_NESTING:
                node = max(tree.children(node), key=lambda child: child.depth)
            message = f"the expression is nested more than {MAX_NESTING} levels deep here"
            return Diagnostic("E106", message, node.span, "name its parts as functions")
    return None


def _broken_clauses(source: Source, tokens: Sequence[Token], found: list[Diagnostic]) -> set[int]:
    """The numbers of the tokens of clauses that cannot be read; each is reported."""
    braces = [n for n, t in enumerate(tokens) if t.type == "LBRACE"]
    broken: set[int] = set()
    start = braces[0] + 1 if braces else len(tokens)
    for n in range(start, len(tokens)):
        if tokens[n].type == "RBRACE":
            break
        if tokens[n].type != "_NL":
            continue
        clause = tokens[start:n]
        try:
            _feed(source, "clause", clause)
        except UnexpectedToken as error:
            found.append(_explain(source, "clause", clause, error))
            broken.update(range(start, n + 1))
        start = n + 1
    return broken


Stumble = tuple[int, str]


def _stumble(error: UnexpectedToken) -> Stumble:
    return error.state.state_stack[-1], error.token.type


@cache
def _mistakes(start: str) -> dict[Stumble, Mistake]:
    """The table of malformed examples, by where the parser stumbles over each."""
    table: dict[Stumble, Mistake] = {}
    grammar_start = "file" if start == "file" else "clause"
    tables = {"file": FILES, "declaration": DECLARATIONS + CLAUSES}
    for mistake in tables.get(start, CLAUSES + DECLARATIONS):
        for example in mistake.examples:
            tokens, _ = _tokens(Source("example", example))
            if start != "file":
                tokens = [t for t in tokens or () if t.type != "_NL"]
            try:
                _feed(Source("example", example), grammar_start, tokens or ())
            except UnexpectedToken as error:
                table.setdefault(_stumble(error), mistake)
    return table


def _explain(
    source: Source, start: str, tokens: Sequence[Token], error: UnexpectedToken
) -> Diagnostic:
    code = "E104" if start == "file" else "E103"
    token = error.token
    at = next((n for n, t in enumerate(tokens) if t is token), len(tokens))
    before = tokens[at - 1] if at else None
    declares = bool(tokens) and tokens[0].type in ("INPUT", "PARAM", "BUFFER")
    table = _mistakes("declaration" if declares and start == "clause" else start)
    mistake = table.get(_stumble(error)) or _nearest(table, error)
    message, hint = (
        "`{token}` is not expected here",
        "a clause is written `NAME = VALUE`, e.g. `mask = causal`",
    )
    if mistake is not None:
        message, hint = mistake.message, mistake.hint
    words = {
        "token": _shown(token),
        "before": _shown(before) if before is not None else "",
        "word": _shown(tokens[1 if tokens[0].type == "LET" and len(tokens) > 1 else 0])
        if tokens
        else "",
    }
    place = token
    if token.type in ("$END", "_NL") or (mistake is not None and mistake.at_before):
        place = before if before is not None else token
    span = Span(source, place.start_pos or 0, max(place.end_pos or 0, (place.start_pos or 0) + 1))
    return Diagnostic(code, message.format(**words), span, hint.format(**words))


def _nearest(table: dict[Stumble, Mistake], error: UnexpectedToken) -> Mistake | None:
    """The mistake of another token in the same state, if all examples there agree."""
    state = _stumble(error)[0]
    candidates = {id(m): m for (other, _), m in table.items() if other == state}
    return next(iter(candidates.values())) if len(candidates) == 1 else None


def _shown(token: Token) -> str:
    if token.type == "$END":
        return END_OF_TEXT
    return "the line's end" if token.type == "_NL" else str(token)
