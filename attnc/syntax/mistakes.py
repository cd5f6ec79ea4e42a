"""Malformed examples -> messages: what a syntax error means is told by the most similar example.

An error is known by the state of the parser and the kind of the token that it stumbled over. Unlike
Lark's own `match_examples`, the depth of the parser's stack does not count, so that one example
serves at any nesting. Every example is a test.

In messages, {token} is the token at fault, {before} the one before it and {word} the clause's first.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mistake:
    """`at_before` puts the message at the token before the one that the parser stumbled over."""

    message: str
    hint: str
    examples: tuple[str, ...]
    at_before: bool = False


VALUE_MISSING = "a value is missing after `{before}`"

CLAUSES = (
    Mistake(
        "the value of `{word}` is missing",
        "write it on the same line, after `=`",
        ("mask =", "let w =", "phi(x) =", "param w : [H] ="),
        at_before=True,
    ),
    Mistake(
        "`=` is missing after `{before}`",
        "a clause is written `NAME = VALUE`, e.g. `mask = causal`",
        (
            "mask causal",
            "heads 8",
            "mask : causal",
            "mask",
            "mask == causal",
            "heads [8]",
            "let w 3",
            "let w : 3",
            "let w",
            "let w == 3",
        ),
    ),  # fmt: skip
    Mistake(
        "`=` is missing after `phi(x)`".replace("phi(x)", "{word}(...)"),
        "a function is written `phi(x) = elu(x) + 1`, a clause `similarity = ...`",
        ("phi(x)", "phi(x) elu(x)", "phi(x) : elu(x)", "phi() 3", "phi(x) == 3"),
    ),
    Mistake(
        "`{token}` cannot be a parameter",
        "the parameters of a function are names: `phi(x) = ...` or `f(x, m = 2) = ...`",
        (
            "phi(2) = 3",
            "phi(x, 2) = 3",
            "phi(x + 1) = 3",
            "phi(f(x)) = 3",
            "phi(-x) = x",
            "phi(,) = x",
            "phi(x,,) = x",
            "phi(x y) = 3",
            "phi(x @ y) = 3",
            "phi(x < y) = 3",
            "phi(x : y) = 3",
            "similarity(q @ k / 2) = 3",
            "phi(x[1]) = 3",
        ),
    ),  # fmt: skip
    Mistake(
        "the default of `{before}` is missing".replace("`{before}`", "a parameter"),
        "a default is written `f(x, m = 2) = ...`",
        ("phi(x =) = 3", "phi(x = , y) = 3"),
    ),
    Mistake(
        "a second `=` in one clause",
        "equality is compared by `==`; each clause stands on a line of its own",
        (
            "mask = i = j",
            "mask = i = 3",
            "mask = f(x) = j",
            "mask = (i) = j",
            "mask = x[i] = j",
            "mask = i + j = 3",
            "mask = i < j = 3",
            "mask = a and b = c",
            "mask = not b = c",
            "mask = i @ j = 3",
            "mask = i ^ j = 3",
            "mask = -i = 3",
            "mask = i or j = 3",
            "let x = 3 = 4",
            "mask = 2 ^ -i = 3",
        ),
    ),  # fmt: skip
    Mistake(
        "an operator is missing between `{before}` and `{token}`",
        "a product is written `2 * x`, the dot product of two rows `q @ k`; each clause stands on a"
        " line of its own",
        (
            "mask = a b",
            "mask = 2 x",
            "mask = 2 3",
            "mask = a 2",
            "mask = f(x) y",
            "mask = (a) b",
            "mask = a[i] b",
            "mask = (a) (b)",
            "mask = 2 (b)",
            "mask = a[i] (b)",
            "mask = a + b c",
            "mask = a @ b c",
            "mask = a < b c",
            "mask = a and b c",
            "mask = a or b c",
            "mask = not a c",
            "mask = -a c",
            "mask = a ^ b c",
            "mask = f(a b)",
            "mask = f(x) (y)",
            "mask = f(2 b)",
            "mask = (a b)",
            "mask = x[a b]",
            "let w = 3 x",
            "mask = a not b",
            "mask = a let",
            "mask = a input",
            "mask = a buffer",
            "mask = a param",
            "mask = (a) 2",
            "mask = x[1:2 x]",
            "mask = x[1:2:3 x]",
            "mask = f(x = a b)",
            "mask = 2 ^ -x y",
        ),
    ),  # fmt: skip
    Mistake(
        VALUE_MISSING,
        "an operator stands between two values, a comma between two arguments",
        (
            "mask = a +",
            "mask = a @",
            "mask = a <",
            "mask = a and",
            "mask = a or",
            "mask = not",
            "mask = -",
            "mask = a ^",
            "mask = a ^ -",
            "mask = (a +)",
            "mask = (a and)",
            "mask = f(a,,)",
            "mask = f(,)",
            "mask = ()",
            "mask = x[]",
            "mask = x[a,]",
            "mask = f(x =)",
            "mask = a + * b",
            "mask = a and or b",
            "mask = not or b",
            "mask = a < < b",
            "mask = a @ @ b",
            "mask = a ^ * b",
            "mask = a + , b",
            "mask = - , b",
            "mask = a + = b",
            "mask = f(x = , y)",
            "mask = f(x = = y)",
            "mask = (, b)",
            "mask = a + : b",
            "mask = a < = b",
            "mask = x[a,,b]",
            "mask = (* b)",
            "mask = f(a, * b)",
            "mask = x[* b]",
            "mask = f(* b)",
            "mask = x[a < ]",
            "mask = f(x, = 3)",
            "mask = f(= 3)",
            "mask = a + ]",
            "mask = f(x = * b)",
        ),
    ),  # fmt: skip
    Mistake(
        "the value of `{word}` begins with `{token}`",
        "a value begins with a name, a number, a bracket, `-` or `not`",
        (
            "mask = * b",
            "mask = @ b",
            "mask = < b",
            "mask = and b",
            "mask = ^ b",
            "mask = , b",
            "mask = : b",
            "mask = [1, 2]",
            "mask = = b",
            "mask = + b",
            "mask = or b",
            "let w = * 3",
            "let w = [3]",
            "let w = = 3",
            "phi(x) = * 3",
            "phi(x) = = 3",
        ),
    ),  # fmt: skip
    Mistake(
        "`{token}` does not belong here",
        "a value ends at the end of its line",
        (
            "heads = 8,",
            "mask = a : b",
            "mask = f(x),",
            "mask = a[i],",
            "let w = 3,",
            "mask = a, b",
            "mask = a + b,",
            "mask = a < b,",
            "mask = a and b,",
            "mask = f(x) : y",
            "mask = (a : b)",
            "mask = (a, b)",
            "mask = f(a : b)",
            "mask = x[1:2:3:4]",
            "mask = (a = b)",
            "mask = f(g(x) = b)",
            "mask = x[a = b]",
            "mask = f(2 = b)",
            "mask = f(a + b = c)",
            "mask = f(2) [3] : 4",
            "mask = a or b,",
            "mask = -a,",
            "mask = a ^ b,",
            "mask = not a,",
            "mask = (f(x), b)",
            "mask = f(x = a : b)",
            "mask = f(x = a = b)",
            "mask = (a + b, c)",
        ),
    ),  # fmt: skip
)

DECLARATIONS = (
    Mistake(
        "a declaration has no name",
        "tensors are declared as `input g, beta : [B, H, S]`",
        (
            "input : [B]",
            "param [B]",
            "buffer",
            "input 3 : [B]",
            "input g, : [B]",
            "input = 3",
            "input (g) : [B]",
            "param g, 3 : [B]",
        ),
    ),  # fmt: skip
    Mistake(
        "`:` is missing after `{before}`",
        "tensors are declared as `input g : [B, H, S]`",
        (
            "input g [B]",
            "input g = 3",
            "input g",
            "param g h : [B]",
            "input g, h [B]",
            "input g, h h",
            "input g(B)",
            "input g, h = 3",
        ),
    ),  # fmt: skip
    Mistake(
        "the dims of a tensor stand in square brackets",
        "tensors are declared as `input g : [B, H, S]`, with integers as `input doc : int [B, S]`",
        (
            "input g :",
            "input g : (B, S)",
            "input g : B, S",
            "input g : 3",
            "input g : int",
            "input g : int (B)",
            "input g : B S",
            "input g : = 3",
            "input g : int = 3",
            "input g : int 3",
        ),
    ),  # fmt: skip
    Mistake(
        "a comma is missing before `{token}`",
        "dims are written `[B, H, S]`",
        (
            "input g : [B H]",
            "input g : [B, H S]",
            "input g : [B 3]",
            "input g : [2 B]",
            "input g : [(B) H]",
        ),
    ),  # fmt: skip
    Mistake(
        "a dim is missing before `{token}`",
        "dims are written `[B, H, S]`; a tensor of one number is `[1]`",
        (
            "input g : []",
            "input g : [, B]",
            "input g : [B, ]",
            "input g : [B,, H]",
            "input g : [B, H * ]",
            "input g : [:]",
            "input g : [*]",
        ),
    ),  # fmt: skip
    Mistake(
        "`{token}` does not belong into dims",
        "dims are written `[B, H, S]`, one each",
        ("input g : [B : H]", "input g : [B = 3]", "input g : [B, H : S]", "input g : [2 : H]"),
    ),
    Mistake(
        "`{token}` does not belong behind the dims",
        "a declaration ends there; only a `param` may have `= NUMBER`, its initial value",
        (
            "input g : [B] int",
            "input g : [B], h : [B]",
            "input g : [B] : int",
            "input g : [B] 3",
            "input g : [B] [H]",
            "input g : [B] (3)",
            "input g : [B] * 3",
        ),
    ),  # fmt: skip
    Mistake(
        "the name of a number is missing",
        "a named number is written `let w = 128`",
        ("let = 3", "let 3", "let", "let (w) = 3", "let : 3"),
    ),
    Mistake(
        "a clause cannot begin with `{token}`",
        "a clause is written `NAME = VALUE`, e.g. `mask = causal`",
        (
            "= 3",
            "3 = x",
            "(x) = 3",
            "[x] = 3",
            ", x = 3",
            "+ b",
            "@ k",
            "and b",
            "* b",
            "or b",
            "^ 2",
            "< b",
            ": 3",
            "- 3",
            "not x",
            "attention a",
            "∧ b",
            "∨ b",
            "¬ b",
        ),
    ),  # fmt: skip
)

FILES = (
    Mistake(
        "a spec begins with `attention NAME {{`",
        "put the clauses between `attention my_attention {{` and `}}`",
        (
            "",
            "similarity = q @ k",
            "atention a {\n}",
            "3",
            "{\n}",
            "let x = 3",
            "input g : [B]",
            "(x)",
            "param g : [B]",
            "buffer g : [B]",
            "= 3",
            "*",
            "-",
            "not",
            "^",
            "<",
            "[",
            ",",
            ":",
            "and",
            "or",
            "}",
        ),
    ),  # fmt: skip
    Mistake(
        "the attention has no name",
        "a spec begins with `attention NAME {{`",
        (
            "attention {\n}",
            "attention",
            "attention 3 {\n}",
            "attention = 3",
            "attention (a) {\n}",
            "attention let {\n}",
        ),
    ),  # fmt: skip
    Mistake(
        "`{{` is missing after the attention's name",
        "a spec begins with `attention NAME {{`",
        (
            "attention a",
            "attention a\nheads = 8\n",
            "attention a (x) {\n}",
            "attention a b {\n}",
            "attention a = 3",
            "attention a : 3",
            "attention a [",
            "attention a - b {",
        ),
    ),  # fmt: skip
    Mistake(
        "`}}` is missing at the end",
        "close the attention with `}}` on a line of its own",
        ("attention a {", "attention a {\nheads = 8\n"),
    ),
    Mistake(
        "`{token}` stands inside the braces of the attention",
        "braces stand only around the clauses; a value that is grouped stands in ( )",
        (
            "attention a {\n{",
            "attention a {\nmask {",
            "attention a {\nmask = {",
            "attention a {\nmask = a {",
            "attention a {\nmask = (a) {",
            "attention a {\nmask = f(x) {",
            "attention a {\nmask = a + {",
            "attention a {\nx = 3\n{",
            "attention a {\ninput g : {",
            "attention a {\nphi(x) {",
            "attention a {\nmask = 3 {",
            "attention a {\nmask = (a {",
        ),
    ),
    Mistake(
        "a file holds one attention, and this stands behind it",
        "move it to a file of its own",
        (
            "attention a {\nx = 3\n}\nattention b {\n}",
            "attention a {\nx = 3\n}\nheads = 8\n",
            "attention a {\nx = 3\n}\n}",
            "attention a {\nx = 3\n}\n3",
            "attention a {\nx = 3\n}\n{",
            "attention a {\nx = 3\n} let x = 3",
            "attention a {\nx = 3\n} * 3",
            "attention a {\n}\nattention b {\n}",
            "attention a {\n}\nheads = 8\n",
            "attention a {\n}\n}",
            "attention a {\n} 3",
            "attention a {\n}\nlet x = 3",
            "attention a {\n}\n{",
            "attention a {\n}(",
        ),
    ),  # fmt: skip
)
