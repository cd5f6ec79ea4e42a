"""tree.Node -> Expr: names looked up, functions inlined, types checked, the index rule applied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from attnc.ir.expr import Bad, Expr, Number
from attnc.passes.functions import Functions
from attnc.passes.reading import Reading
from attnc.passes.resolver import EMPTY, Environment, Exhausted, Place, TensorName, Value
from attnc.syntax import tree


@dataclass
class Expressions(Reading, Functions):
    """Resolves the expressions of one attention."""

    def clause(self, node: tree.Node, place: Place) -> Expr:
        """The expression of a clause; Bad where a limit was met."""
        self.place, self.level = place, 0
        self.pinned, self.active = None, ()
        try:
            return self.expr(node, EMPTY)
        except Exhausted:
            return Bad(span=node.span)

    def clause_alone(self, node: tree.Node) -> Expr:
        """The expression of the place that this was made for."""
        return self.clause(node, self.place)

    def value(self, node: tree.Node, env: Environment) -> Value:
        # one frame for each level of nesting: texts may nest 200 levels deep
        self._step(node)
        self.level += 1
        match node:
            case tree.Number(value):
                result: Value = self.number(value, node)
            case tree.Name():
                result = self.name(node, env)
                if isinstance(result, TensorName):
                    result = replace(result, span=self.span(node))
            case tree.Prefix(op, operand):
                arg = self.read_bare(self.value(operand, env), operand)
                result = self.call(op, (arg,), node, (operand,))
            case tree.Infix(op, left, right):
                self._refuse_chain(node)
                first = self.read_bare(self.value(left, env), left)
                second = self.read_bare(self.value(right, env), right)
                result = self.call(op, (first, second), node, (left, right))
            case tree.Apply():
                args = []
                for argument in node.arguments:
                    args.append(self.value(argument.value, env))
                result = self.apply(node, args, env)
            case tree.Subscript():
                base = self.own_row(node.base, env) or self.value(node.base, env)
                parts: dict[int, Expr] = {}
                for part in _parts(node):
                    index = self.named_index(part, env, base)
                    parts[id(part)] = index or self.read_bare(self.value(part, env), part)
                result = self.subscript(node, base, parts)
            case _:
                self.report("E103", "a slice stands only in `x[a:b]`", node.span, "cut a row")
                result = Bad(span=node.span)
        self.level -= 1
        return result

    def number(self, value: int | float, node: tree.Node) -> Expr:
        if value == float("inf"):
            return self.bad("E218", "the number is not finite", node, "write `inf`")
        return Number(value, span=self.span(node))


def _parts(node: tree.Subscript) -> Iterator[tree.Node]:
    """The indices, and the bounds of the slices."""
    for item in node.items:
        if isinstance(item, tree.Slice):
            yield from tree.children(item)
        else:
            yield item
