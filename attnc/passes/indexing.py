"""The index rule: which index of a tensor goes to which axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnc.ir.expr import Expr, Index, IndexName, Number, Tensor, TensorDecl
from attnc.ir.sizes import Size
from attnc.source import Span

KINDS = {
    IndexName.BATCH: ("B",),
    IndexName.HEAD: ("H", "G"),
    IndexName.QUERY: ("L", "S"),
    IndexName.KEY: ("S",),
}
OWN = {"B": IndexName.BATCH, "H": IndexName.HEAD, "G": IndexName.HEAD}
ONE = Size.of(1)


@dataclass
class BadIndex(Exception):
    """The index rule does not say what is meant."""

    message: str
    hint: str
    item: int | None = None  # the index at fault


@dataclass(frozen=True, slots=True)
class OwnAxes:
    """What an L and an S axis that nobody indexes are read at; None where that is not told."""

    query: IndexName | None = None
    key: IndexName | None = None

    def of(self, kind: str) -> IndexName | None:
        return self.query if kind == "L" else self.key


def kind_of(size: Size) -> str:
    """B, H, G, L or S, `1`, or nothing for any other axis."""
    for kind in "BHGLS":
        if size == Size.of(kind):
            return kind
    return "1" if size == ONE else ""


def bind(
    decl: TensorDecl, items: Sequence[Expr], own: OwnAxes, span: Span, runs: bool = False
) -> Tensor:
    """The tensor read at these indices. Raises BadIndex."""
    kinds = [kind_of(size) for size in decl.dims]
    axes: list[Expr | None] = [None] * len(kinds)
    others = _bind_named(decl, kinds, axes, items)
    for axis, n in zip(_axes_for(decl, kinds, axes, others), others, strict=False):
        axes[axis] = items[n]
    for n, kind in enumerate(kinds):
        if axes[n] is not None:
            continue
        if kind in OWN:
            axes[n] = Index(OWN[kind], span=span)
        elif kind == "1":
            axes[n] = Number(0, span=span)
        elif kind:
            name = own.of(kind)
            if name is None:
                raise _unbound(decl, kind)
            axes[n] = Index(name, span=span)
    if sum(axis is None for axis in axes) > 2:
        left = ", ".join(str(d) for d, a in zip(decl.dims, axes, strict=True) if a is None)
        raise BadIndex(
            f"`{decl.name}` has the axes [{left}] left, and a value has at most one",
            f"index it: `{decl.name}[...]`",
        )
    return Tensor(decl, tuple(axes), runs, span=span)


def _bind_named(
    decl: TensorDecl, kinds: list[str], axes: list[Expr | None], items: Sequence[Expr]
) -> list[int]:
    """Bind b, h, i and j to the axes of their kind; the numbers of the other items."""
    others = []
    for n, item in enumerate(items):
        if not isinstance(item, Index):
            others.append(n)
            continue
        free = [
            axis
            for kind in KINDS[item.name]
            for axis, found in enumerate(kinds)
            if found == kind and axes[axis] is None
        ]
        if not free:
            wanted = " or ".join(KINDS[item.name])
            dims = ", ".join(map(str, decl.dims))
            if "" in kinds and item.name in (IndexName.QUERY, IndexName.KEY, IndexName.HEAD):
                others.append(n)
                continue
            raise BadIndex(
                f"`{decl.name}` : [{dims}] has no {wanted} axis for `{item.name.value}`",
                f"leave `{item.name.value}` out, or declare the axis",
                n,
            )
        axes[free[0]] = item
    return others


def _axes_for(
    decl: TensorDecl, kinds: list[str], axes: list[Expr | None], others: list[int]
) -> list[int]:
    """The axes that the items without an axis of their own go to, in order."""
    free = [n for n, axis in enumerate(axes) if axis is None]
    own = [n for n in free if kinds[n] not in ("B", "H", "G", "1")]
    wide = [n for n in free if kinds[n] != "1"]
    for choice in (own, wide, free):
        if len(others) <= len(choice):
            return choice
    dims = ", ".join(map(str, decl.dims))
    raise BadIndex(
        f"too many indices for `{decl.name}` : [{dims}]",
        "one index per axis; an axis B, H or G may be left out",
        others[-1],
    )


def _unbound(decl: TensorDecl, kind: str) -> BadIndex:
    name = decl.name
    if kind == "L":
        return BadIndex(
            f"`{name}` has an L axis, and here it is not told which row's place is meant",
            f"write `{name}[i]` for the row's",
        )
    return BadIndex(
        f"`{name}` has an S axis, and here it is not told which place is meant",
        f"write `{name}[j]` for the key's place, `{name}[i]` for the row's own",
    )
