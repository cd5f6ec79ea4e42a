"""What the names of a spec stand for, and the findings about it."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from attnc import prelude
from attnc.diagnostics import Diagnostic
from attnc.ir.expr import TensorDecl
from attnc.ir.ops import FUNCTIONS
from attnc.source import Source, Span
from attnc.syntax import tree
from attnc.syntax.layout import CLAUSE_WORDS

DIMS = ("B", "H", "G", "L", "S", "d_k", "d_v")
INDICES = ("i", "j", "h", "b")
ROWS = ("q", "k", "v", "o")
CONSTANTS = ("pi", "inf")
MODULE_WORDS = frozenset(
    [
        "form",
        "backend",
        "initial_state",
        "return_state",
        "return_lse",
        "state",
        "cu_seqlens",
        "batch",
        "heads",
        "kv_heads",
        "device",
        "dtype",
        "context",
        "self",
    ]
)
LANGUAGE_WORDS = frozenset(
    [
        "attention",
        "let",
        "input",
        "param",
        "buffer",
        "and",
        "or",
        "not",
        "none",
        "on",
        "off",
        "signed",
        "add",
        "delta",
        "auto",
        "int",
        "bool",
        "float",
        "eps",
        "n",
    ]
)
SCALAR_CLAUSES = frozenset(
    [
        "heads",
        "kv_heads",
        "v_heads",
        "d_k",
        "d_v",
        "align",
        "read",
        "form",
        "chunk",
        "layout",
        "precision",
    ]
)
LONGEST_NAME = 64


def nearest(word: str, known: Iterable[str]) -> str | None:
    matches = get_close_matches(word, list(known), n=1, cutoff=0.7)
    return matches[0] if matches else None


@dataclass
class Scope:
    """The clauses of one attention by name. `broken` are words of lines that could not be read."""

    source: Source
    attention_name: Span
    found: list[Diagnostic]
    broken: frozenset[str]
    settings: dict[str, tree.Setting] = field(default_factory=dict)
    lets: dict[str, tree.Let] = field(default_factory=dict)
    functions: dict[str, tree.Function] = field(default_factory=dict)
    declared: dict[str, tuple[tree.Word, tree.Declaration]] = field(default_factory=dict)
    tensors: dict[str, TensorDecl] = field(default_factory=dict)
    dims: dict[str, list[Span]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def report(self, code: str, message: str, span: Span, hint: str = "") -> None:
        """Add a finding, once for each place."""
        place = (span.source, span.start)
        for old in self.found:
            if (old.span.source, old.span.start) == place and old.code[0] == code[0]:
                return
        self.found.append(Diagnostic(code, message, span, hint))

    def report_missing(self, code: str, message: str, span: Span, hint: str) -> None:
        """As `report`; several clauses may be missing at one place."""
        self.found.append(Diagnostic(code, message, span, hint))

    def own_names(self) -> Iterable[str]:
        return (*self.lets, *self.functions, *self.declared)


def collect(attention: tree.Attention, scope: Scope) -> None:
    """Enter every clause, and report names that cannot be, and what stands there twice."""
    check_attention_name(attention.name, scope)
    for clause in attention.clauses:
        match clause:
            case tree.Setting(name):
                _enter_setting(clause, name, scope)
            case tree.Let(name):
                if _new_name(name, scope):
                    scope.lets[name.text] = clause
            case tree.Function(name, parameters):
                if _new_name(name, scope, function=True):
                    scope.functions[name.text] = clause
                    _check_parameters(parameters, scope)
            case tree.Declaration(names=names):
                for name in names:
                    if _new_name(name, scope):
                        scope.declared[name.text] = (name, clause)


def override(overrides: Mapping[str, str], scope: Scope, values: Mapping[str, tree.Node]) -> None:
    """Replace lets and scalar clauses by the values set from outside."""
    for name, value in values.items():
        word = tree.Word(name, value.span)
        if name in scope.lets:
            scope.lets[name] = replace(scope.lets[name], value=value)
        elif name in SCALAR_CLAUSES:
            scope.settings[name] = tree.Setting(word, value, value.span)
        else:
            known = (*scope.lets, *sorted(SCALAR_CLAUSES))
            close = nearest(name, known)
            lets = f"the spec's numbers are {', '.join(scope.lets)}" if scope.lets else (
                "the spec has no `let`"
            )  # fmt: skip
            hint = f"did you mean `{close}`?" if close else f"{lets}; clauses like heads can be set"
            span = Span(Source("--set", f"{name}={overrides[name]}"), 0, max(len(name), 1))
            scope.report("E223", f"the spec has no `{name}` that could be set", span, hint)


def _enter_setting(clause: tree.Setting, name: tree.Word, scope: Scope) -> None:
    if name.text not in CLAUSE_WORDS:
        code, message, span, hint = unknown_clause(clause)
        scope.report(code, message, span, hint)
        # the clause that was meant is not missing as well
        scope.broken |= CLAUSE_WORDS & frozenset(re.findall(r"\w+", hint))
    elif name.text in scope.settings:
        line = scope.settings[name.text].span.line
        message = f"`{name.text}` is given twice, first in line {line}"
        hint = "masks are combined by `and`" if name.text == "mask" else "remove one of the two"
        scope.report("E203", message, name.span, hint)
    else:
        scope.settings[name.text] = clause


# what people write for a clause of ours
CLAUSE_SLIPS = {
    "softmax": "softmax is `similarity = exp(...)` with `normalizer = on`",
    "normalize": "the clause is called `normalizer`",
    "norm": "the clause is called `normalizer`",
    "scale": "write the scale into the similarity: `similarity = exp(q @ k / sqrt(d_k))`",
    "phi": "a feature map is a function: `phi(x) = elu(x) + 1`, used as `phi(q) @ phi(k)`",
    "feature_map": "a feature map is a function: `phi(x) = elu(x) + 1`, used as `phi(q) @ phi(k)`",
    "kernel": "a feature map is a function: `phi(x) = elu(x) + 1`, used as `phi(q) @ phi(k)`",
    "causal": "write `mask = causal`",
    "is_causal": "write `mask = causal`",
    "window": "write `mask = window(128)`",
    "gate": "a gate is a decay: `input g : [B, H, S]` and `decay = exp(g)`",
    "forget": "a gate is a decay: `input g : [B, H, S]` and `decay = exp(g)`",
    "gamma": "a fixed decay is written `decay = ...`",
    "beta": "the write strength stands in `update = delta(beta)`",
    "q": "the clause is called `query`",
    "k": "the clause is called `key`",
    "v": "the clause is called `value`",
    "o": "the clause is called `output`",
    "queries": "the clause is called `query`",
    "keys": "the clause is called `key`",
    "values": "the clause is called `value`",
    "score": "the clause is called `similarity`",
    "scores": "the clause is called `similarity`",
    "weights": "the clause is called `similarity`",
    "weight": "the clause is called `similarity`",
    "bias": "add a bias inside the exponential: `similarity = exp(q @ k + bias[h, i - j])`",
    "alignment": "the clause is called `align`",
    "block": "the clause is called `chunk`",
    "dtype": "the dtype is that of the tensors at the call",
    "dropout": "there is no dropout on attention weights",
    "state": "the state follows from the other clauses",
}


def unknown_clause(clause: tree.Setting) -> tuple[str, str, Span, str]:
    word = clause.name.text
    close = nearest(word, CLAUSE_WORDS)
    if word in CLAUSE_SLIPS:
        hint = CLAUSE_SLIPS[word]
    elif close:
        hint = f"did you mean `{close}`?"
    elif isinstance(clause.value, tree.Number):
        hint = f"a named number is written `let {word} = {clause.value.span.text}`"
    else:
        hint = f"a definition is written as a function, `{word}(x) = ...`, a number as `let {word}`"
    return "E202", f"unknown clause `{word}`", clause.name.span, hint


def malformed(name: str) -> str:
    """Why a text cannot be a name; empty where it can."""
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        return "names are made of the letters A to Z, digits and `_`"
    if len(name) > LONGEST_NAME:
        return f"a name has at most {LONGEST_NAME} characters"
    if "__" in name:
        return "a name has no two `_` in a row"
    if keyword.iskeyword(name):
        return "it is a keyword of Python, in which the module is written"
    return ""


def taken(name: str) -> str:
    """What a name stands for already; empty where it is free."""
    if name in CLAUSE_WORDS:
        return "a clause"
    if name in DIMS:
        return "a size of the language"
    if name in INDICES:
        return "an index of the language"
    if name in ROWS:
        return "one of the rows q, k, v, o"
    if name in CONSTANTS:
        return "a constant of the language"
    if name in prelude.functions() or name in FUNCTIONS:
        return f"a function of the language (`attnc help {name}`)"
    if name in LANGUAGE_WORDS:
        return "a word of the language"
    if name in MODULE_WORDS:
        return "a keyword of the generated module"
    return ""


def check_attention_name(name: tree.Word, scope: Scope) -> None:
    why = malformed(name.text)
    if name.text in sys.stdlib_module_names or name.text in ("torch", "triton", "numpy"):
        why = "a module of that name exists, and the generated one would hide it"
    if why:
        scope.report("E204", f"an attention cannot be called `{name.text}`: {why}", name.span,
                     f"call it `{_suggestion(name.text)}`")  # fmt: skip


def _suggestion(name: str) -> str:
    plain = re.sub("_+", "_", re.sub("[^A-Za-z0-9_]", "_", name)).strip("_")[:40] or "my"
    return f"{plain}_attention" if plain[0].isalpha() else f"my_{plain}"


def _new_name(name: tree.Word, scope: Scope, function: bool = False) -> bool:
    """Report a name that cannot be entered. A malformed one is entered all the same."""
    if function and name.text in ("update", "normalizer", "mask", "similarity", "decay"):
        hint = f"a clause is written `{name.text} = ...`, without arguments"
        scope.report("E204", f"`{name.text}` is a clause and takes no arguments", name.span, hint)
        return False
    if why := taken(name.text):
        hint = "choose another name" if not function else (
            "use it as it is, or choose another name for yours"
        )  # fmt: skip
        scope.report("E204", f"`{name.text}` is {why} already", name.span, hint)
        return False
    if name.text in scope.own_names():
        scope.report("E203", f"`{name.text}` is declared twice", name.span, "rename one of the two")
        return False
    if why := malformed(name.text):
        scope.report("E204", f"`{name.text}` cannot be a name: {why}", name.span, "rename it")
    return True


def _check_parameters(parameters: tuple[tree.Parameter, ...], scope: Scope) -> None:
    seen: set[str] = set()
    default = False
    for parameter in parameters:
        name = parameter.name
        why = malformed(name.text)
        if name.text in seen:
            scope.report(
                "E203", f"two parameters are called `{name.text}`", name.span, "rename one"
            )
        elif why:
            scope.report("E204", f"`{name.text}` cannot be a name: {why}", name.span, "rename it")
        elif word := taken(name.text):
            hint = "call the parameter x, or another free name"
            scope.report("E204", f"`{name.text}` is {word} already", name.span, hint)
        elif default and parameter.default is None:
            hint = "parameters with defaults come last"
            scope.report("E205", f"`{name.text}` needs a default too", name.span, hint)
        seen.add(name.text)
        default = default or parameter.default is not None
