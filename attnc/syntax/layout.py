"""Tokens -> tokens with the line ends that end a clause, every bracket paired, no foreign signs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from lark import Token

from attnc.diagnostics import Diagnostic
from attnc.source import Source, Span

MAX_NESTING = 200
CLAUSE_WORDS = frozenset(
    [
        "heads",
        "kv_heads",
        "v_heads",
        "d_k",
        "d_v",
        "query",
        "key",
        "value",
        "similarity",
        "mask",
        "align",
        "decay",
        "update",
        "read",
        "normalizer",
        "output",
        "form",
        "chunk",
        "layout",
        "precision",
    ]
)
KEYWORDS = ("LET", "INPUT", "PARAM", "BUFFER", "ATTENTION")
OPERATORS = frozenset(
    [
        "OR",
        "AND",
        "NOT",
        "OR_SIGN",
        "AND_SIGN",
        "NOT_SIGN",
        "COMPARE",
        "PLUS",
        "MINUS",
        "PRODUCT",
        "CARET",
    ]
)
PAIRS = {"LPAR": "RPAR", "LSQB": "RSQB"}
CLOSERS = {"RPAR": ")", "RSQB": "]"}

# misspelt: what it is read as (type, text), and what to write
SLIPS = {
    "&&": ("AND", "and", "both of two conditions is written `and`"),
    "&": ("AND", "and", "both of two conditions is written `and`"),
    "||": ("OR", "or", "one of two conditions is written `or`"),
    "|": ("OR", "or", "one of two conditions is written `or`, and |x| is abs(x)"),
    "!": ("NOT", "not", "the opposite of a condition is written `not`"),
    "~": ("NOT", "not", "the opposite of a condition is written `not`"),
    "**": ("CARET", "^", "a power is written `x^2`"),
    "−": ("MINUS", "-", "write the minus sign of the keyboard: -"),
    "×": ("PRODUCT", "*", "a product is written `*`"),
    "∗": ("PRODUCT", "*", "a product is written `*`"),
    "÷": ("PRODUCT", "/", "a quotient is written `/`"),
    "=<": ("COMPARE", "<=", "at most is written `<=`"),
    "=>": ("COMPARE", ">=", "at least is written `>=`"),
    "<>": ("COMPARE", "!=", "unequal is written `!=`"),
    ":=": ("EQUAL", "=", "a clause is written `NAME = VALUE`"),
    "+=": ("EQUAL", "=", "a clause is given once, as `NAME = VALUE`"),
    "-=": ("EQUAL", "=", "a clause is given once, as `NAME = VALUE`"),
    "*=": ("EQUAL", "=", "a clause is given once, as `NAME = VALUE`"),
    "->": ("EQUAL", "=", "a function is written `f(x) = ...`"),
    ";": ("_NL", "\n", "a clause ends at the end of its line, without a sign"),
}
STRAYS = {
    '"': "names and values are written without quotes",
    "'": "names and values are written without quotes",
    "`": "names and values are written without quotes",
    ".": "the language has no dots between names: d_k is the size of a row, size(x) that of any x",
    "?": "a choice is written where(condition, a, b)",
    "\\": "a line goes on after an operator or inside brackets, without a backslash",
    "√": "a square root is written sqrt(x)",
    "‖": "the length of a row is written norm(x)",
    "∞": "infinity is written inf",
    "∑": "the sum of a row is written sum(x)",
    "²": "a square is written x^2",
    "ᵀ": "the dot product of two rows is written q @ k, without a transpose",
    "→": "a function is written `f(x) = ...`",
    "∈": "ranges are written with comparisons: 0 <= i and i < 4",
}


@dataclass
class Layout:
    """Walks the tokens once. `tokens` is the result."""

    source: Source
    given: Sequence[Token]
    tokens: list[Token] = field(default_factory=list)
    opened: list[Token] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def run(self) -> None:
        for n, token in enumerate(self.given):
            if token.type in ("SLIP", "STRAY"):
                read_as = self.foreign(token)
                if read_as is None:
                    continue
                token = read_as
            match token.type:
                case "_NL":
                    self.line_end(token, n)
                case "LPAR" | "LSQB":
                    self.opened.append(token)
                    self.tokens.append(token)
                case "RPAR" | "RSQB":
                    self.close(token)
                case "RBRACE":
                    self.close_all(token)
                    self.end_clause(token)
                    self.tokens.append(token)
                case _:
                    self.tokens.append(token)
        if self.given:
            self.close_all(self.given[-1])
            if self.tokens and self.tokens[-1].type != "RBRACE":
                self.end_clause(self.given[-1])

    def foreign(self, token: Token) -> Token | None:
        """Report a sign that is none of the language's; what was meant instead, if it is known."""
        if token in SLIPS:
            kind, text, hint = SLIPS[token]
            self.report("E101", f"`{token}` is no sign of the language", token, hint)
            return Token.new_borrow_pos(kind, text, token)
        name = token if token.isprintable() else f"U+{ord(token):04X}"
        last = self.diagnostics[-1].span if self.diagnostics else None
        line = self.source.position(token.start_pos or 0)[0]
        again = last is not None and last.line == line and last.text in ('"', "'", "`", token)
        if not again and not (last is not None and last.end == token.start_pos):
            hint = STRAYS.get(token, "")
            self.report("E101", f"the character `{name}` has no meaning here", token, hint)
        return None

    def line_end(self, token: Token, n: int) -> None:
        after_operator = bool(self.tokens) and self.tokens[-1].type in OPERATORS
        if (self.opened or after_operator) and not self.starts_clause(n):
            return
        self.close_all(token)
        self.end_clause(token)

    def starts_clause(self, n: int) -> bool:
        """Do the tokens after the n-th start a clause, whatever brackets are open?"""
        rest = [t for t in self.given[n : n + 80] if t.type != "_NL"]
        if not rest or rest[0].type in ("RBRACE", *KEYWORDS):
            return True
        if rest[0].type != "NAME" or len(rest) < 2:
            return False
        if rest[1].type == "EQUAL":
            return not self.opened or rest[0] in CLAUSE_WORDS
        if rest[1].type != "LPAR":
            return False
        depth = 0
        for token, following in itertools.pairwise(rest):
            depth += (token.type == "LPAR") - (token.type == "RPAR")
            if depth == 0:
                return following.type == "EQUAL"
        return False

    def end_clause(self, token: Token) -> None:
        if self.tokens and self.tokens[-1].type not in ("_NL", "LBRACE", "RBRACE"):
            self.tokens.append(Token.new_borrow_pos("_NL", "\n", token))

    def close(self, token: Token) -> None:
        if not self.opened:
            self.report("E102", f"`{token}` closes no bracket", token, "remove it")
            return
        opener = self.opened.pop()
        wanted = PAIRS[opener.type]
        if token.type != wanted:
            line = self.source.position(opener.start_pos or 0)[0]
            text = f"`{token}` closes the `{opener}` of line {line}"
            self.report("E102", text, token, f"write `{CLOSERS[wanted]}`")
        self.tokens.append(Token.new_borrow_pos(wanted, CLOSERS[wanted], token))

    def close_all(self, token: Token) -> None:
        """Report what is still open, and go on as if it had been closed."""
        if self.opened:
            opener = self.opened[-1]
            closer = CLOSERS[PAIRS[opener.type]]
            self.report("E102", f"`{opener}` is never closed", opener, f"add `{closer}`")
        while self.opened:
            kind = PAIRS[self.opened.pop().type]
            last = self.tokens[-1]
            closer_token = Token.new_borrow_pos(kind, CLOSERS[kind], last)
            closer_token.start_pos = last.end_pos
            self.tokens.append(closer_token)

    def report(self, code: str, message: str, token: Token, hint: str) -> None:
        start = token.start_pos or 0
        span = Span(self.source, start, max(token.end_pos or 0, start + 1))
        self.diagnostics.append(Diagnostic(code, message, span, hint))
