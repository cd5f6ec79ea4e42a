"""An Explanation as plain text for a terminal or a file, at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap

from attnc.explain import Explanation

WIDTH = 96


def as_text(found: Explanation) -> str:
    parts = [
        f"{found.attention}  ({found.file})",
        _clauses(found),
        _similarity(found),
        _mask(found),
        _forms(found),
        _memory(found),
    ]
    return "\n\n".join(part for part in parts if part)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their cells; the last one is wrapped."""
    cells = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(head) - 1)]
    indent = sum(widths) + 2 * len(widths) + 2
    lines: list[str] = []
    for row in cells:
        fixed = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        last = wrap(row[-1], max(30, WIDTH - indent)) or [""]
        lines.append(f"  {fixed}  {last[0]}".rstrip())
        lines.extend(" " * indent + more for more in last[1:])
    return "\n".join(lines)


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Names and what is said of them, one per line."""
    kept = [(name, text) for name, text in rows if text]
    width = max((len(name) for name, _ in kept), default=0)
    lines: list[str] = []
    for name, text in kept:
        first, *rest = wrap(text, WIDTH - width - 4) or [""]
        lines.append(f"  {name:<{width}}  {first}")
        lines.extend(" " * (width + 4) + more for more in rest)
    return "\n".join(lines)


def quantity(number: int | None, unit: str = "") -> str:
    """A number as people read it: 1234567 is 1.23 M."""
    if number is None:
        return "?"
    value, prefixes = float(number), iter(("k", "M", "G", "T", "P", "E"))
    prefix = ""
    while value >= 1000 and (larger := next(prefixes, None)):
        value, prefix = value / 1000, larger
    text = f"{value:.0f}" if not prefix or value >= 100 else f"{value:.3g}"
    return f"{text} {prefix}{unit}".rstrip()


def _clauses(found: Explanation) -> str:
    rows = [(row.clause, row.side, row.shape, row.expression) for row in found.clauses]
    text = "Clauses\n" + table(("clause", "side", "shape", "expression"), rows)
    if found.tensors:
        text += "\n\nDeclared tensors\n" + pairs(found.tensors.items())
    return text


def _similarity(found: Explanation) -> str:
    factors = found.factorization
    if factors.reason is not None:
        at = f" (at {factors.place})" if factors.place else ""
        rows = [("factorizes", f"no: {factors.reason}{at}")]
    else:
        size = factors.size or ""
        if factors.size_number is not None and str(factors.size_number) != size:
            size += f" = {factors.size_number}"
        rows = [
            ("factorizes", "yes, similarity = phi @ psi"),
            ("phi", factors.phi or ""),
            ("psi", factors.psi or ""),
            ("C", f"{size}, the size of phi and psi"),
        ]
    rows.append(("sign", f"weights are {found.weights}"))
    if found.exponent:
        rows.append(("exponent", f"{found.exponent}  (the weight is its exponential)"))
    if found.log_decay:
        rows.append(("log decay", f"{found.log_decay}  (per step, natural log, at most 0)"))
    return "Similarity\n" + pairs(rows)


def _mask(found: Explanation) -> str:
    mask = found.mask
    keys = f"{mask.first_key or '0'} <= j < {mask.past_key or 'S'}"
    tiles = found.tiles
    share = f" ({100 * tiles.visited / tiles.total:.0f}%)" if tiles.total else ""
    return "Mask\n" + pairs(
        [
            ("pairs", " and ".join(mask.pair_masks) or "every pair"),
            ("keys", " and ".join(mask.key_masks)),
            ("row i sees", keys),
            ("implies j <= i", "yes" if mask.implies_causal else "no"),
            (
                "tiles",
                f"the key range leaves {tiles.visited} of {tiles.total} tiles of 64 x 64{share}",
            ),
        ]
    )


def _forms(found: Explanation) -> str:
    sizes = ", ".join(f"{name}={number}" for name, number in found.sizes.items())
    rows = [
        (row.form, quantity(row.flops), quantity(row.moved_bytes, "B"), "exists")
        if row.exists
        else (row.form, "-", "-", f"does not exist: {row.reason}")
        for row in found.forms
    ]
    text = f"Forms for {sizes}\n" + table(("form", "flops", "moved", ""), rows)
    text += "\n\nChoice\n" + pairs([("form", found.choice)])
    if found.missing_sizes:
        options = " ".join(f"--size {name}=N" for name in found.missing_sizes)
        text += f"\n  what is marked ? depends on {options}"
    return text


def _memory(found: Explanation) -> str:
    kept = found.memory
    if kept is None:
        return "Kept for the next token\n" + pairs(
            [("cache", "the keys and values of all tokens so far; there is no state of fixed size")]
        )
    return "Kept for the next token, per head\n" + pairs(
        [
            ("state", f"{kept.state} numbers, whatever the length (float32)"),
            ("cache", f"{kept.cache_per_token} numbers per token, if keys and values were kept"),
            ("smaller", f"beyond {kept.smaller_beyond} tokens the state is smaller than the cache"),
            ("cheaper", f"beyond {kept.cheaper_beyond} tokens moving it is cheaper"),
        ]
    )
