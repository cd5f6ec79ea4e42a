"""Tensors read by the index rule; rows indexed and cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from attnc.ir.expr import Bad, Expr, Index, IndexName, Number, Row, RowName, constant_size
from attnc.ir.ops import Op
from attnc.ir.sizes import Size
from attnc.ir.types import BAD, Kind
from attnc.passes.indexing import BadIndex, bind
from attnc.passes.lookup import Names
from attnc.passes.names import INDICES
from attnc.passes.resolver import Environment, Exhausted, TensorName, Value, shown, size_expr
from attnc.syntax import tree


class Reading(Names):
    """Reads tensors and rows at their indices."""

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

    def own_row(self, node: tree.Node, env: Environment) -> Row | None:
        """The k of k[i] in the output."""
        if isinstance(node, tree.Name) and node.text not in env and node.text in self.place.at_own:
            return replace(self.place.at_own[node.text], span=self.span(node))
        return None

    def runs(self, of: Value) -> Value:
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

    def named_index(self, node: tree.Node, env: Environment, base: Value) -> Expr | None:
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
        return self.bad("E212", f"the index `{shown(node.span)}` is {what}", node, hint)

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
            what = shown(node.base.span)
            message = f"`{what}` is {base.type}, and only rows and tensors are indexed"
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
            return self.bad("E210", f"the output reads no `{shown(node.span)}`", node, hint)
        own = "i" if name in (RowName.Q, RowName.O) else "j"
        if word == own:
            return replace(row, span=self.span(node))
        letter = name.value
        hint = f"`{letter}` is the row of `{own}`: write `{letter}` or `{letter}[{own}]`"
        return self.bad("E210", f"there is no `{shown(node.span)}` here", node, hint)

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
            message = f"`{shown(node.base.span)}` is {base.type}, and only rows are cut"
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
                message = f"the slice `{shown(part.span)}` leaves the row of {size} entries"
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
