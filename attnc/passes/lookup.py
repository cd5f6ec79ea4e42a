"""Names in expressions: what they stand for, or why they stand for nothing here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnc import prelude
from attnc.ir.expr import Bad, Dim, Expr, Index, IndexName, Number
from attnc.ir.ops import FUNCTIONS
from attnc.ir.sizes import Size
from attnc.passes.mismatches import NAME_SLIPS, arity_hint
from attnc.passes.names import CONSTANTS, DIMS, INDICES, ROWS, nearest
from attnc.passes.resolver import EMPTY, Environment, Resolver, TensorName, Value, shown, signature
from attnc.syntax import tree
from attnc.syntax.layout import CLAUSE_WORDS


class Names(Resolver):
    """Looks names up."""

    def apply(self, node: tree.Apply, args: Sequence[Value], env: Environment) -> Value:
        """A function applied to arguments."""
        raise NotImplementedError

    def name(self, node: tree.Name, env: Environment) -> Value:
        word, span = node.text, self.span(node)
        if word in env:
            return env[word]
        if word in self.numbers.lets:
            self.scope.used.add(word)
            return self.numbers.let(word, span)
        if word in self.scope.declared:
            self.scope.used.add(word)
            if word not in self.scope.tensors:
                return Bad(span=span)
            return TensorName(self.scope.tensors[word], span)
        if word in INDICES:
            return self.index(word, node)
        if word in ROWS:
            return self.row(word, node)
        if word in CONSTANTS:
            return Number({"pi": 3.141592653589793, "inf": float("inf")}[word], span=span)
        if word in DIMS:
            return self.numbers.dim(word, span)
        if word in self.scope.dims:
            self.scope.dims[word].append(span)
            return Dim(Size.of(word), span=span)
        return self._function_or_unknown(node)

    def index(self, word: str, node: tree.Name) -> Expr:
        if word not in self.place.indices:
            if not self._first_refusal(word):
                return Bad(span=self.span(node))
            allowed = ", ".join(f"`{w}`" for w in INDICES if w in self.place.indices)
            hint = f"it may read {allowed}" if allowed else self.place.hint
            return self.bad("E210", f"`{self.place.clause}` cannot read `{word}`", node, hint)
        if word == "i":
            self.position(node)
        return Index(IndexName(word), span=self.span(node))

    def _first_refusal(self, word: str) -> bool:
        """Is this the first time that the clause reads what it cannot? It is said once."""
        key = (self.place.clause, word)
        first = key not in self.refused
        self.refused.add(key)
        return first

    def position(self, node: tree.Node) -> None:
        """Report a row's position that no alignment gives, once for a spec."""
        if self.numbers.aligned:
            return
        self.numbers.aligned = True
        hint = (
            "add `align = lower_right` (the last row sits at the last key, as in decoding) or "
            "`align = upper_left` (row i sits at key i)"
        )
        what = f"`{shown(self.span(node))}` needs the row's position, and `align` is missing"
        self.report("E213", what, node.span, hint)

    def row(self, word: str, node: tree.Name) -> Expr:
        found = self.place.rows.get(word)
        if found is not None:
            return replace(found, span=self.span(node))
        if not self._first_refusal(word):
            return Bad(span=self.span(node))
        if word in self.place.at_own:
            hint = f"write `{word}[i]` for the row's own"
            message = f"`{self.place.clause}` reads no `{word}` of all keys"
            return self.bad("E210", message, node, hint)
        message = f"`{self.place.clause}` cannot read `{word}`"
        return self.bad("E210", message, node, self.place.hint)

    def _function_or_unknown(self, node: tree.Name) -> Expr:
        word = node.text
        if word in prelude.functions():
            if any(not f.parameters for f in prelude.functions()[word]):
                call = tree.Apply(tree.Word(word, node.span), (), span=node.span)
                return self.read_bare(self.apply(call, (), EMPTY), node)
            example = signature(prelude.functions()[word][0])
            return self.bad("E205", f"`{word}` is a function", node, f"write `{example}`")
        if word in self.scope.functions:
            self.scope.used.add(word)
            example = signature(self.scope.functions[word])
            return self.bad("E205", f"`{word}` is a function", node, f"write `{example}`")
        if word in FUNCTIONS:
            return self.bad("E205", f"`{word}` is a function", node, arity_hint(FUNCTIONS[word]))
        if word in ("none", "on", "off", "add", "signed"):
            message = f"`{word}` is a value of a clause, not of an expression"
            hint = "e.g. `normalizer = on`, `update = add`"
            if word == "none":
                hint = "`none` stands alone: `mask = none`"
            return self.bad("E209", message, node, hint)
        return self.unknown(node, word)

    def unknown(self, node: tree.Node, word: str, called: bool = False) -> Expr:
        span = node.span if not isinstance(node, tree.Apply) else node.function.span
        if word in self.scope.broken:
            return Bad(span=span)
        self.report("E201", f"unknown name `{word}`", span, self._unknown_hint(word, called))
        return Bad(span=self.span(node))

    def _unknown_hint(self, word: str, called: bool) -> str:
        if word in NAME_SLIPS:
            return NAME_SLIPS[word]
        functions = (*FUNCTIONS, *prelude.functions(), *self.scope.functions)
        names = (*self.scope.own_names(), *self.scope.dims, *DIMS, *CONSTANTS, "causal")
        close = nearest(word, functions if called else (*names, *functions))
        if close:
            return f"did you mean `{close}`?"
        if called:
            return f"declare a function: `{word}(x) = ...`"
        if word in CLAUSE_WORDS:
            if word in ("query", "key", "value"):
                return f"`{word}` is a clause: in expressions its row is called `{word[0]}`"
            return f"`{word}` is a clause, and none of the names in expressions"
        return f"declare it: `input {word} : [B, H, S]`, `param {word} : [H]` or `let {word} = 1`"
