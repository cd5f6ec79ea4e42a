"""What each form costs for given sizes: multiply-adds, bytes moved, tiles visited, state, cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attnc.ir.expr import Dim, Expr, Index, IndexName
from attnc.ir.facts import Factorized, Facts
from attnc.ir.sizes import Size
from attnc.ir.spec import Align, AttnSpec, Form
from attnc.passes.intervals import Interval, bounds

TILE = 64  # rows and columns of the tiles that are counted
CHUNK = 64  # rows of a chunk where the spec leaves it to the compiler
HALF, SINGLE = 2, 4  # bytes of a number in 16 bits, as inputs are counted, and of a state's


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one form, for the whole call. A flop is a multiplication or an addition."""

    form: Form
    flops: int
    moved_bytes: int


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles of TILE x TILE pairs that the mask's key range leaves, of all there are."""

    visited: int
    total: int


@dataclass(frozen=True, slots=True)
class Memory:
    """What is kept per head for the next token, in numbers. Beyond `smaller_beyond` tokens the
    state is smaller than the cache; beyond `cheaper_beyond` tokens reading and writing the state
    moves less than reading the cache."""

    state: int
    cache_per_token: int
    smaller_beyond: int
    cheaper_beyond: int


def default_sizes(spec: AttnSpec, given: Mapping[str, int]) -> dict[str, int]:
    """A number for every dim of the language; those of the spec's own dims must be given."""
    heads = spec.heads or 1
    sizes = {"B": 1, "H": heads, "G": spec.kv_heads or given.get("H", heads)}
    sizes |= {"L": 4096, "d_k": spec.d_k or 64, "d_v": spec.d_v or 64}
    sizes |= given
    sizes = {"S": sizes["L"]} | sizes
    first = [name for name in ("B", "H", "G", "L", "S", "d_k", "d_v") if name in sizes]
    return {name: sizes[name] for name in [*first, *(n for n in sizes if n not in first)]}


def tiles(spec: AttnSpec, facts: Facts, sizes: Mapping[str, int]) -> Tiles:
    """The tiles that a row of tiles visits, summed over the rows of tiles."""
    rows, keys = sizes["L"], sizes["S"]
    columns = -(-keys // TILE)
    offset = keys - rows if spec.align is Align.LOWER_RIGHT else 0
    visited = 0
    for top in range(0, rows, TILE):
        first = offset + top
        last = offset + min(top + TILE, rows) - 1
        low = _value(facts.mask.first_key, first, sizes, 0)
        high = _value(facts.mask.past_key, last, sizes, keys)
        start, stop = max(0, int(low)), min(keys, int(high))
        if start < stop:
            visited += -(-stop // TILE) - start // TILE
    return Tiles(visited, columns * -(-rows // TILE))


def _value(expr: Expr | None, position: int, sizes: Mapping[str, int], otherwise: int) -> float:
    """A bound on a key for a row at a position; `otherwise` where it is not a number."""
    if expr is None:
        return otherwise
    known: dict[Expr, Interval] = {
        Dim(Size.of(name)): Interval.of(n, n) for name, n in sizes.items()
    }
    known[Index(IndexName.QUERY)] = Interval.of(position, position)
    found = bounds(expr, known)
    return found.low if found.is_point else otherwise


def feature_size(facts: Facts, sizes: Mapping[str, int]) -> int:
    """C where the similarity factorizes, otherwise the size of a row of q. Raises KeyError."""
    match facts.factorization:
        case Factorized() as factorized:
            return factorized.size.evaluate(sizes)
    return sizes["d_k"]


def costs(spec: AttnSpec, facts: Facts, sizes: Mapping[str, int]) -> tuple[Cost, ...]:
    """One row per form that exists. Raises KeyError for a dim that is not given."""
    c, d_v, d_k = feature_size(facts, sizes), sizes["d_v"], sizes["d_k"]
    rows, keys = sizes["L"], sizes["S"]
    every = sizes["B"] * sizes["H"]
    chunk = spec.chunk or CHUNK
    pairs = tiles(spec, facts, sizes).visited * TILE * TILE
    ends = HALF * (rows * (d_k + d_v) + keys * (d_k + d_v))
    state = SINGLE * c * d_v
    found = []
    for form in facts.form_names:
        if form is Form.PARALLEL:
            work = pairs * (c + d_v)
            moved = HALF * rows * (d_k + d_v) + HALF * (pairs // TILE) * (d_k + d_v)
        elif form is Form.CHUNKWISE:
            work = keys * (chunk * (c + d_v) + 2 * c * d_v)
            moved = ends + 2 * state * -(-keys // chunk)
        else:
            work = keys * 2 * c * d_v
            moved = ends + 2 * state * keys
        found.append(Cost(form, 2 * every * work, every * moved))
    return tuple(found)


def memory(spec: AttnSpec, facts: Facts, sizes: Mapping[str, int]) -> Memory | None:
    """State against cache, per head; None where there is no state. Raises KeyError."""
    if not isinstance(facts.factorization, Factorized):
        return None
    if not {Form.CHUNKWISE, Form.RECURRENT} & set(facts.form_names):
        return None
    c, per_token = feature_size(facts, sizes), sizes["d_k"] + sizes["d_v"]
    state = c * (sizes["d_v"] + (spec.normalizer is not None))
    return Memory(state, per_token, state // per_token, 2 * state // per_token)
