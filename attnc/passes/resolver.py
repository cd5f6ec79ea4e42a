"""What the parts of the resolver of expressions share: place, limits, checked operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from attnc.ir.expr import Bad, Call, Dim, Expr, Number, Row, TensorDecl, call
from attnc.ir.ops import COMPARISONS, Op
from attnc.ir.sizes import Size
from attnc.ir.types import TypeMismatch
from attnc.passes.constants import NotFinite, constant
from attnc.passes.indexing import OwnAxes
from attnc.passes.mismatches import CODES, explain
from attnc.passes.names import Scope
from attnc.passes.numbers import Numbers
from attnc.source import Span
from attnc.syntax import tree

DIVISIONS = (Op.DIV, Op.FLOORDIV, Op.MOD)
MAX_DEPTH = 200
MAX_WEIGHT = 20_000
MAX_STEPS = 200_000
MAX_TERMS = 64


@dataclass(frozen=True, slots=True)
class Place:
    """What the expression of one clause may read."""

    clause: str
    rows: Mapping[str, Row] = field(default_factory=dict)
    indices: frozenset[str] = frozenset()
    own: OwnAxes = field(default_factory=OwnAxes)
    at_own: Mapping[str, Row] = field(default_factory=dict)  # k[i] and v[i]
    hint: str = ""


@dataclass(frozen=True, slots=True)
class TensorName:
    """A tensor's name as an argument: it is read where the parameter is."""

    decl: TensorDecl
    span: Span
    runs: bool = False


Value = Expr | TensorName
Environment = Mapping[str, Value]
EMPTY: Environment = {}


class Exhausted(Exception):
    """A limit was met and reported: nothing more is worth saying about this clause."""


@dataclass
class Resolver:
    """Resolves the expressions of one attention. `place` is the clause's."""

    scope: Scope
    numbers: Numbers
    place: Place
    pinned: Span | None = None  # the user's call, inside a function of the prelude
    active: tuple[tuple[str, Span], ...] = ()  # the functions being inlined
    refused: set[tuple[str, str]] = field(default_factory=set)
    level: int = 0
    steps: int = 0

    def value(self, node: tree.Node, env: Environment) -> Value:
        """What a node comes to; a tensor's bare name stays one."""
        raise NotImplementedError

    def expr(self, node: tree.Node, env: Environment) -> Expr:
        return self.read_bare(self.value(node, env), node)

    def read(self, name: TensorName, items: Sequence[Expr], node: tree.Node) -> Expr:
        """A tensor at its indices."""
        raise NotImplementedError

    def read_bare(self, value: Value, node: tree.Node) -> Expr:
        return value if isinstance(value, Expr) else self.read(value, (), node)

    def span(self, node: tree.Node) -> Span:
        return self.pinned or node.span

    def report(self, code: str, message: str, span: Span, hint: str = "") -> None:
        own = [(name, place) for name, place in self.active if self.scope.functions.get(name)]
        if own and self.pinned is None:
            place = own[-1][1]
            called = f"called as `{shown(place)}` in line {place.line}"
            hint = f"{hint}; {called}" if hint else called
        self.scope.report(code, message, self.pinned or span, hint)

    def bad(self, code: str, message: str, node: tree.Node, hint: str = "") -> Bad:
        self.report(code, message, node.span, hint)
        return Bad(span=self.span(node))

    def call(
        self, op: Op, args: Sequence[Expr], node: tree.Node, nodes: Sequence[tree.Node]
    ) -> Expr:
        """The operation, with every refusal reported at the operand at fault."""
        self._limit(1 + sum(arg.weight for arg in args), 1 + max(a.depth for a in args), node)
        try:
            result = call(op, *args, span=self.span(node))
            self._check_constant(result, node, nodes)
        except TypeMismatch as error:
            self._mismatch(error, args, node, nodes)
            return Bad(span=self.span(node))
        self._check_size(result, node)
        return result

    def _mismatch(
        self,
        error: TypeMismatch,
        args: Sequence[Expr],
        node: tree.Node,
        nodes: Sequence[tree.Node],
    ) -> None:
        n = error.argument
        operand = nodes[n] if n < len(nodes) else node
        if self.pinned is not None and self.active:
            # the user wrote none of the body: speak of the argument and of the function
            written = args[n].span or self.pinned
            inner = written if inside(written, self.pinned) else self.pinned
            texts = [shown(a.span) if a.span else "" for a in args]
            name = self.active[-1][0]
            message, hint = explain(error, texts, args)
            message = f"in `{name}`: {message}"
            self.scope.report(CODES[error.what], message, inner, hint)
            return
        message, hint = explain(error, [shown(child.span) for child in nodes], args)
        self.report(CODES[error.what], message, operand.span, hint)

    def _check_constant(self, expr: Expr, node: tree.Node, nodes: Sequence[tree.Node]) -> None:
        if not isinstance(expr, Call):
            return
        divisor = nodes[1] if expr.op in DIVISIONS and len(nodes) > 1 else None
        try:
            if divisor is not None and constant(expr.args[1]) == 0:
                self.report("E218", f"`{shown(node.span)}` divides by zero", divisor.span,
                            f"`{shown(divisor.span)}` is the constant 0")  # fmt: skip
                raise Exhausted
            constant(expr)
        except NotFinite as error:
            hint = "constants are floating-point numbers up to 1.8e308; `inf` is written out"
            self.report("E218", f"the constant `{shown(node.span)}` {error}", node.span, hint)
            raise Exhausted from None

    def _refuse_chain(self, node: tree.Infix) -> None:
        left = node.left
        if node.op not in COMPARISONS or not isinstance(left, tree.Infix):
            return
        between = node.span.source.text[left.span.end : node.sign.start]
        if left.op in COMPARISONS and ")" not in between:
            middle = shown(left.right.span)
            second = f"{middle} {node.sign.text} {shown(node.right.span)}"
            hint = f"write `{shown(left.span)} and {second}`"
            self.report("E105", "comparisons cannot be chained", node.sign, hint)
            raise Exhausted

    def _step(self, node: tree.Node) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS or self.level >= MAX_DEPTH:
            what = "takes too many steps" if self.steps > MAX_STEPS else "nests too deeply"
            self._exhaust(f"the expression {what} when its functions are written out", node)

    def _limit(self, weight: int, depth: int, node: tree.Node) -> None:
        if weight > MAX_WEIGHT:
            self._exhaust(f"the expression grows over {MAX_WEIGHT} operations here", node)
        if depth > MAX_DEPTH:
            self._exhaust(f"the expression nests more than {MAX_DEPTH} levels deep here", node)

    def _check_size(self, expr: Expr, node: tree.Node) -> None:
        for size in expr.type.shape:
            if len(size.terms) > MAX_TERMS or any(
                len(monomial) > 16 or abs(c.numerator) > 1 << 40 for monomial, c in size.terms
            ):
                self._exhaust("the size of this row grows over the limit", node)
            if size.constant is not None and size.constant < 1:
                self.report(
                    "E206",
                    f"this row would have {size.constant} entries",
                    node.span,
                    "a row has at least one entry",
                )
                raise Exhausted

    def _exhaust(self, message: str, node: tree.Node) -> None:
        self.report("E219", message, node.span, "call fewer functions inside functions")
        raise Exhausted


def size_expr(size: Size, span: Span | None = None) -> Expr:
    """A size as a number in an expression."""
    return Dim(size, span=span) if size.constant is None else Number(size.constant, span=span)


def inside(inner: Span, outer: Span) -> bool:
    return inner.source == outer.source and outer.start <= inner.start and inner.end <= outer.end


def shown(span: Span) -> str:
    """The text at a place, on one line and not too long."""
    text = " ".join(span.text.split())
    return text if len(text) <= 60 else text[:57] + "..."


def counted(number: int) -> str:
    return "1 argument" if number == 1 else f"{number} arguments"


def signature(function: tree.Function) -> str:
    if not function.parameters:
        return function.name.text
    shown = [
        p.name.text if p.default is None else f"{p.name.text} = {p.default.span.text}"
        for p in function.parameters
    ]
    return f"{function.name.text}({', '.join(shown)})"
