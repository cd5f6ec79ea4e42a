"""tree.Node -> Expr: names looked up, functions inlined, types checked, the index rule applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from attnc import prelude
from attnc.ir.expr import (
    Bad,
    Call,
    Dim,
    Expr,
    Index,
    IndexName,
    Number,
    Row,
    RowName,
    Tensor,
    TensorDecl,
    call,
    constant_size,
)
from attnc.ir.ops import COMPARISONS, FUNCTIONS, Op
from attnc.ir.sizes import Size
from attnc.ir.types import BAD, Kind, Mismatch, TypeMismatch
from attnc.passes.constants import NotFinite, constant
from attnc.passes.indexing import BadIndex, OwnAxes, bind
from attnc.passes.mismatches import CODES, NAME_SLIPS, arity_hint, explain
from attnc.passes.names import CONSTANTS, DIMS, INDICES, ROWS, Scope, nearest
from attnc.passes.numbers import Numbers
from attnc.source import Span
from attnc.syntax import tree
from attnc.syntax.layout import CLAUSE_WORDS

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
class Expressions:
    """Resolves the expressions of one attention. `place` is the clause's."""

    scope: Scope
    numbers: Numbers
    place: Place
    pinned: Span | None = None  # the user's call, inside a function of the prelude
    active: tuple[tuple[str, Span], ...] = ()  # the functions being inlined
    refused: set[tuple[str, str]] = field(default_factory=set)
    level: int = 0
    steps: int = 0

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

    def expr(self, node: tree.Node, env: Environment) -> Expr:
        return self.read_bare(self.value(node, env), node)

    def value(self, node: tree.Node, env: Environment) -> Value:
        """What a node comes to; a tensor's bare name stays one. One frame per level."""
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
                base = self._own_row(node.base, env) or self.value(node.base, env)
                parts: dict[int, Expr] = {}
                for part in _parts(node):
                    index = self._named_index(part, env, base)
                    parts[id(part)] = index or self.read_bare(self.value(part, env), part)
                result = self.subscript(node, base, parts)
            case _:
                self.report("E103", "a slice stands only in `x[a:b]`", node.span, "cut a row")
                result = Bad(span=node.span)
        self.level -= 1
        return result

    def read_bare(self, value: Value, node: tree.Node) -> Expr:
        return value if isinstance(value, Expr) else self.read(value, (), node)

    def number(self, value: int | float, node: tree.Node) -> Expr:
        if value == float("inf"):
            return self.bad("E218", "the number is not finite", node, "write `inf`")
        return Number(value, span=self.span(node))

    def span(self, node: tree.Node) -> Span:
        return self.pinned or node.span

    def report(self, code: str, message: str, span: Span, hint: str = "") -> None:
        own = [(name, place) for name, place in self.active if self.scope.functions.get(name)]
        if own and self.pinned is None:
            _name, place = own[-1]
            hint = "; ".join(
                filter(None, (hint, f"called as `{_shown(place)}` in line {place.line}"))
            )
        self.scope.report(code, message, self.pinned or span, hint)

    def bad(self, code: str, message: str, node: tree.Node, hint: str = "") -> Bad:
        self.report(code, message, node.span, hint)
        return Bad(span=self.span(node))

    # names

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
        what = f"`{_shown(self.span(node))}` needs the row's position, and `align` is missing"
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
                return self.read_bare(
                    self.apply(
                        tree.Apply(tree.Word(word, node.span), (), span=node.span), (), EMPTY
                    ),
                    node,
                )
            example = _signature(prelude.functions()[word][0])
            return self.bad("E205", f"`{word}` is a function", node, f"write `{example}`")
        if word in self.scope.functions:
            self.scope.used.add(word)
            example = _signature(self.scope.functions[word])
            return self.bad("E205", f"`{word}` is a function", node, f"write `{example}`")
        if word in FUNCTIONS:
            return self.bad("E205", f"`{word}` is a function", node, arity_hint(FUNCTIONS[word]))
        if word in ("none", "on", "off", "add", "signed"):
            message = f"`{word}` is a value of a clause, not of an expression"
            hint = "`none` stands alone: `mask = none`" if word == "none" else (
                "e.g. `normalizer = on`, `update = add`"
            )  # fmt: skip
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

    # operations

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
            inner = written if _inside(written, self.pinned) else self.pinned
            texts = [_shown(a.span) if a.span else "" for a in args]
            name = self.active[-1][0]
            message, hint = explain(error, texts, args)
            message = f"in `{name}`: {message}"
            self.scope.report(CODES[error.what], message, inner, hint)
            return
        message, hint = explain(error, [_shown(child.span) for child in nodes], args)
        self.report(CODES[error.what], message, operand.span, hint)

    def _check_constant(self, expr: Expr, node: tree.Node, nodes: Sequence[tree.Node]) -> None:
        if not isinstance(expr, Call):
            return
        divisor = nodes[1] if expr.op in DIVISIONS and len(nodes) > 1 else None
        try:
            if divisor is not None and constant(expr.args[1]) == 0:
                self.report("E218", f"`{_shown(node.span)}` divides by zero", divisor.span,
                            f"`{_shown(divisor.span)}` is the constant 0")  # fmt: skip
                raise Exhausted
            constant(expr)
        except NotFinite as error:
            hint = "constants are floating-point numbers up to 1.8e308; `inf` is written out"
            self.report("E218", f"the constant `{_shown(node.span)}` {error}", node.span, hint)
            raise Exhausted from None

    def _refuse_chain(self, node: tree.Infix) -> None:
        left = node.left
        if node.op not in COMPARISONS or not isinstance(left, tree.Infix):
            return
        between = node.span.source.text[left.span.end : node.sign.start]
        if left.op in COMPARISONS and ")" not in between:
            second = f"{_shown(left.right.span)} {node.sign.text} {_shown(node.right.span)}"
            hint = f"write `{_shown(left.span)} and {second}`"
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

    # functions

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
            return self._runs(args[0])
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
            wants = "at least one argument" if wanted is None else _counted(wanted)
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
                        hint = f"it is called as `{_signature(function)}`"
                        self.report("E205", message, argument.name.span, hint)
                        return None
                return function
        forms = " or ".join(f"`{_signature(function)}`" for function in overloads)
        got = len(node.arguments)
        message = f"`{node.function.text}` is called with {_counted(got)}"
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
                hint = f"write `{_signature(function)}`"
                self.report("E205", f"the argument `{word}` is missing", node.span, hint)
            matched.append((parameter, given))
        return matched

    # tensors, indices and slices

    def read(self, name: TensorName, items: Sequence[Expr], node: tree.Node) -> Expr:
        """A tensor at its indices, as the index rule has it."""
        if any(item.type == BAD for item in items):
            return Bad(span=self.span(node))
        try:
            tensor = bind(name.decl, items, self.place.own, self.span(node), name.runs)
        except BadIndex as error:
            place: tree.Node = node
            if isinstance(node, tree.Subscript) and error.item is not None:
                place = [n for n in node.items if not isinstance(n, tree.Slice)][error.item]
            return self.bad("E211", error.message, place, error.hint)
        for size, axis in zip(name.decl.dims, tensor.axes, strict=True):
            if size == Size.of("S") and axis == Index(IndexName.QUERY):
                self.position(node)
        return tensor

    def subscript(self, node: tree.Subscript, base: Value, parts: Mapping[int, Expr]) -> Expr:
        slices = [item for item in node.items if isinstance(item, tree.Slice)]
        plain = [item for item in node.items if not isinstance(item, tree.Slice)]
        if isinstance(base, TensorName):
            result = self.read(base, [self._whole(parts[id(n)], n) for n in plain], node)
        elif plain:
            result = self._element(base, plain, node, parts)
        else:
            result = base
        if len(slices) > 1:
            message = "a row has one axis, and here are two slices"
            return self.bad("E211", message, node, "cut it once")
        return self._slice(result, slices[0], node, parts) if slices else result

    def _own_row(self, node: tree.Node, env: Environment) -> Row | None:
        """The k of k[i] in the output."""
        if isinstance(node, tree.Name) and node.text not in env and node.text in self.place.at_own:
            return replace(self.place.at_own[node.text], span=self.span(node))
        return None

    def _runs(self, of: Value) -> Value:
        if isinstance(of, Expr):
            span = of.span or self.pinned
            assert span is not None
            if of.type != BAD:
                message = "`same` wants the name of a tensor of ids"
                self.scope.report("E211", message, span, "declare `input doc : int [B, S]`")
            return Bad(span=span)
        axes = of.decl.dims.count(Size.of("S"))
        if axes == 1:
            return replace(of, runs=True)
        message = f"`same` wants ids along the keys, and `{of.decl.name}` has {axes or 'no'} S axes"
        self.scope.report("E211", message, of.span, "declare them as `input doc : int [B, S]`")
        return Bad(span=of.span)

    def _named_index(self, node: tree.Node, env: Environment, base: Value) -> Expr | None:
        """b, h, i or j by name, as the index of a tensor or of a row of q, k, v, o."""
        if not isinstance(node, tree.Name) or node.text in env or node.text not in INDICES:
            return None
        if isinstance(base, Row):
            return Index(IndexName(node.text), span=self.span(node))
        if not isinstance(base, TensorName) or node.text not in (*self.place.indices, "b"):
            return None
        dims = base.decl.dims
        if node.text == "i" and Size.of("L") not in dims and Size.of("S") not in dims:
            self.position(node)
        return Index(IndexName(node.text), span=self.span(node))

    def _whole(self, index: Expr, node: tree.Node) -> Expr:
        """An index of a tensor is an integer."""
        if index.type == BAD or (index.type.kind is Kind.INT and not index.type.shape):
            return index
        what = "a boolean" if index.type.kind is Kind.BOOL else "no integer"
        what = str(index.type) if index.type.shape else what
        hint = "round it by floor(x), or divide by `//`"
        return self.bad("E212", f"the index `{_shown(node.span)}` is {what}", node, hint)

    def _element(
        self,
        base: Expr,
        items: list[tree.Node],
        node: tree.Subscript,
        parts: Mapping[int, Expr],
    ) -> Expr:
        """q[i] and k[j] are q and k; x[3] is an entry."""
        item = items[0]
        if len(items) > 1:
            return self.bad("E211", "a row has one index", node, "write `x[0]`")
        if base.type == BAD:
            return base
        index = parts[id(item)]
        if isinstance(base, Row) and isinstance(index, Index):
            return self._row_at(base, index, node)
        if not base.type.is_row:
            message = (
                f"`{_shown(node.base.span)}` is {base.type}, and only rows and tensors are indexed"
            )
            return self.bad("E208", message, node.base, "leave the index out")
        index = self._counted_from_end(index, base.type.shape[0], item)
        return self.call(Op.ELEMENT, (base, index), node, (node.base, item))

    def _row_at(self, row: Row, index: Index, node: tree.Subscript) -> Expr:
        word, name = index.name.value, row.name
        if name in (RowName.OWN_K, RowName.OWN_V):
            if word == "i":
                self.position(node)
                return replace(row, span=self.span(node))
            hint = f"only the row's own is known: `{name.value}`"
            return self.bad("E210", f"the output reads no `{_shown(node.span)}`", node, hint)
        own = "i" if name in (RowName.Q, RowName.O) else "j"
        if word == own:
            return replace(row, span=self.span(node))
        hint = (
            f"`{name.value}` is the row of `{own}`: write `{name.value}` or `{name.value}[{own}]`"
        )
        return self.bad("E210", f"there is no `{_shown(node.span)}` here", node, hint)

    def _counted_from_end(self, index: Expr, size: Size, node: tree.Node) -> Expr:
        """x[-1] is the last entry; what lies outside is reported."""
        value = constant_size(index)
        if value is not None and value.constant is not None:
            count = value.constant
            place = size + value if count < 0 else value
            outside = size.constant is not None and not -size.constant <= count < size.constant
            if outside:
                message = f"the row has {size} entries, and there is no number {count}"
                self.report("E206", message, node.span, "entries count from 0")
                raise Exhausted
            return size_expr(place, self.span(node)) if count < 0 else index
        return index

    def _slice(
        self, base: Expr, part: tree.Slice, node: tree.Subscript, parts: Mapping[int, Expr]
    ) -> Expr:
        if base.type == BAD:
            return base
        if not base.type.is_row:
            message = f"`{_shown(node.base.span)}` is {base.type}, and only rows are cut"
            return self.bad("E208", message, node.base, "leave the slice out")
        size = base.type.shape[0]
        start = self._bound(part.start, Size.of(0), size, parts)
        stop = self._bound(part.stop, size, size, parts)
        step = Number(1) if part.step is None else parts[id(part.step)]
        given = [x or part for x in (part.start, part.stop, part.step)]
        ends = [constant_size(x) for x in (start, stop, step)]
        if all(end is not None for end in ends):
            first, last, by = ends
            assert first is not None and last is not None and by is not None
            spare = (size - last).constant
            wrong = by.constant is not None and by.constant < 1
            wrong = wrong or (spare is not None and spare < 0)
            wrong = wrong or (first.constant is not None and first.constant < 0)
            if wrong:
                message = f"the slice `{_shown(part.span)}` leaves the row of {size} entries"
                return self.bad("E206", message, part, "slices are `x[first:past:step]`")
        return self.call(Op.SLICE, (base, start, stop, step), node, (node.base, *given))

    def _bound(
        self,
        node: tree.Node | None,
        default: Size,
        size: Size,
        parts: Mapping[int, Expr],
    ) -> Expr:
        if node is None:
            return size_expr(default, self.pinned)
        bound = parts[id(node)]
        value = constant_size(bound)
        if value is not None and value.constant is not None and value.constant < 0:
            return size_expr(size + value, self.span(node))
        return bound


def _parts(node: tree.Subscript) -> Iterator[tree.Node]:
    """The indices, and the bounds of the slices."""
    for item in node.items:
        if isinstance(item, tree.Slice):
            yield from tree.children(item)
        else:
            yield item


def size_expr(size: Size, span: Span | None = None) -> Expr:
    """A size as a number in an expression."""
    return Dim(size, span=span) if size.constant is None else Number(size.constant, span=span)


def _inside(inner: Span, outer: Span) -> bool:
    return inner.source == outer.source and outer.start <= inner.start and inner.end <= outer.end


def _shown(span: Span) -> str:
    """The text at a place, on one line and not too long."""
    text = " ".join(span.text.split())
    return text if len(text) <= 60 else text[:57] + "..."


def _counted(number: int) -> str:
    return "1 argument" if number == 1 else f"{number} arguments"


def _signature(function: tree.Function) -> str:
    if not function.parameters:
        return function.name.text
    shown = [
        p.name.text if p.default is None else f"{p.name.text} = {p.default.span.text}"
        for p in function.parameters
    ]
    return f"{function.name.text}({', '.join(shown)})"


__all__ = ["Expressions", "Mismatch", "Place", "Tensor", "TensorName", "size_expr"]
