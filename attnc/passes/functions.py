"""Function calls: operations checked, functions of the spec and the prelude written out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from attnc import prelude
from attnc.ir.expr import Bad, Call, Expr
from attnc.ir.ops import FUNCTIONS, Op
from attnc.passes.lookup import Names
from attnc.passes.mismatches import arity_hint
from attnc.passes.names import CONSTANTS, DIMS, INDICES, ROWS
from attnc.passes.resolver import (
    EMPTY,
    Environment,
    Exhausted,
    Value,
    counted,
    signature,
    size_expr,
)
from attnc.source import Span
from attnc.syntax import tree


class Functions(Names):
    """Applies functions to arguments."""

    def runs(self, of: Value) -> Value:
        """The runs of equal ids of a tensor."""
        raise NotImplementedError

    def apply(self, node: tree.Apply, args: Sequence[Value], env: Environment) -> Value:
        name = node.function.text
        if name in env or name in self.scope.declared or name in self.numbers.lets:
            self.scope.used.add(name)
            hint = f"an index is written `{name}[i]`, a product `{name} * x`"
            return self.bad("E205", f"`{name}` is no function", node, hint)
        if name in self.scope.functions:
            self.scope.used.add(name)
            return self.inline((self.scope.functions[name],), node, args)
        if name in prelude.functions():
            with self._pin(node.span):
                return self.inline(prelude.functions()[name], node, args)
        if name == "runs" and self.pinned is not None:
            return self.runs(args[0])
        if name in FUNCTIONS:
            exprs = [self.read_bare(v, a.value) for v, a in zip(args, node.arguments, strict=True)]
            return self.builtin(FUNCTIONS[name], node, exprs)
        if name in (*DIMS, *INDICES, *ROWS, *CONSTANTS, *self.scope.dims):
            hint = f"a product is written `{name} * (...)`, an index `{name}[...]`"
            return self.bad("E205", f"`{name}` is no function", node, hint)
        return self.unknown(node, name, called=True)

    @contextmanager
    def _pin(self, span: Span) -> Iterator[None]:
        before, self.pinned = self.pinned, self.pinned or span
        yield
        self.pinned = before

    def builtin(self, op: Op, node: tree.Apply, args: Sequence[Expr]) -> Expr:
        for argument in node.arguments:
            if argument.name is not None:
                message = f"`{op.info.spelling}` has no argument called `{argument.name.text}`"
                self.report("E205", message, argument.name.span, arity_hint(op))
                return Bad(span=self.span(node))
        given, wanted = len(node.arguments), op.info.arity
        if given != wanted and (wanted is not None or not given):
            wants = "at least one argument" if wanted is None else counted(wanted)
            message = f"`{op.info.spelling}` wants {wants} and got {given}"
            return self.bad("E205", message, node, arity_hint(op))
        result = self.call(op, args, node, [argument.value for argument in node.arguments])
        if op is Op.SIZE and isinstance(result, Call):
            return size_expr(args[0].type.shape[0], self.span(node))
        return result

    def inline(self, overloads: prelude.Overloads, node: tree.Apply, args: Sequence[Value]) -> Expr:
        """The body of a function over its arguments."""
        function = self._overload(overloads, node)
        if function is None:
            return Bad(span=self.span(node))
        name = function.name.text
        if any(name == other for other, _ in self.active):
            chain = " -> ".join([other for other, _ in self.active] + [name])
            message = f"`{name}` is defined by itself: {chain}"
            self.report("E217", message, node.span, "a function cannot call itself")
            raise Exhausted
        bound: dict[str, Value] = {}
        for parameter, value in self._matched(function, node, args):
            if value is not None:
                bound[parameter.name.text] = value
            elif parameter.default is not None:
                bound[parameter.name.text] = self.expr(parameter.default, EMPTY)
            else:
                bound[parameter.name.text] = Bad(span=self.span(node))
        before, self.active = self.active, (*self.active, (name, node.span))
        result = self.read_bare(self.value(function.body, bound), function.body)
        self.active = before
        return result

    def _overload(self, overloads: prelude.Overloads, node: tree.Apply) -> tree.Function | None:
        """The definition that takes these arguments; reported where there is none."""
        for function in overloads:
            needed = sum(p.default is None for p in function.parameters)
            if needed <= len(node.arguments) <= len(function.parameters):
                names = {p.name.text for p in function.parameters}
                for argument in node.arguments:
                    if argument.name is not None and argument.name.text not in names:
                        word = argument.name.text
                        message = f"`{function.name.text}` has no argument called `{word}`"
                        hint = f"it is called as `{signature(function)}`"
                        self.report("E205", message, argument.name.span, hint)
                        return None
                return function
        forms = " or ".join(f"`{signature(function)}`" for function in overloads)
        got = len(node.arguments)
        message = f"`{node.function.text}` is called with {counted(got)}"
        self.report("E205", message, node.span, f"write {forms}")
        return None

    def _matched(
        self, function: tree.Function, node: tree.Apply, args: Sequence[Value]
    ) -> list[tuple[tree.Parameter, Value | None]]:
        """Each parameter with the argument given for it."""
        by_name: dict[str, Value] = {}
        by_place: list[Value] = []
        for argument, value in zip(node.arguments, args, strict=True):
            if argument.name is not None:
                by_name[argument.name.text] = value
                continue
            if by_name:
                message = "an argument without a name after one with a name"
                self.report("E205", message, argument.value.span, "named arguments come last")
            by_place.append(value)
        matched: list[tuple[tree.Parameter, Value | None]] = []
        for n, parameter in enumerate(function.parameters):
            word = parameter.name.text
            if n < len(by_place) and word in by_name:
                self.report("E205", f"`{word}` is given twice", node.span, "leave one out")
            given = by_place[n] if n < len(by_place) else by_name.get(word)
            if given is None and parameter.default is None:
                hint = f"write `{signature(function)}`"
                self.report("E205", f"the argument `{word}` is missing", node.span, hint)
            matched.append((parameter, given))
        return matched
