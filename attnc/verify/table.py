"""A verdict as tables for people."""

from __future__ import annotations

import math
from typing import IO

from rich import box
from rich.console import Console
from rich.table import Table

from attnc.verify.verdict import Build, Row, Verdict

IN_A_PIPE = 160  # columns, so that nothing is broken into several lines
LONGEST = 12  # failed probes, or builds, that are listed


def print_tables(verdict: Verdict, file: IO[str], only_failures: bool) -> None:
    """What was compared with which error and bound, and what was compiled."""
    width = None if file.isatty() else IN_A_PIPE
    console = Console(file=file, width=width, highlight=False, soft_wrap=False)
    rows = [row for row in verdict.rows if not (only_failures and row.ok)]
    if rows:
        console.print(_comparisons(rows))
    builds = [build for build in verdict.builds if not (only_failures and build.ok)]
    if builds:
        console.print(_builds(builds))
    for reason in verdict.skipped:
        console.print(reason)


def _comparisons(rows: list[Row]) -> Table:
    names = ("form", "backend", "compared", "worst error", "bound", "probes", "worst on")
    table = _table(*names)
    for row in rows:
        worst = row.worst
        count = f"{len(row.probes)}" if row.ok else f"{len(row.failed)} of {len(row.probes)} failed"
        where = f"{worst.probe}: {worst.shapes} {worst.dtype}"
        if worst.note:
            where += f": {worst.note}"
        if not row.ok:
            others = [name for name in row.failed if name != worst.probe][:LONGEST]
            where += f"; also {', '.join(others)}" if others else ""
        style = "" if row.ok else "red"
        numbers = (_number(worst.error), _number(worst.bound))
        table.add_row(row.form, row.backend, row.what, *numbers, count, where, style=style)
    return table


def _builds(builds: list[Build]) -> Table:
    table = _table("kernel", "target", "builds", "result")
    groups: dict[tuple[str, str], list[Build]] = {}
    for build in builds:
        groups.setdefault((build.kernel, build.target), []).append(build)
    for (kernel, target), group in groups.items():
        failed = [build for build in group if not build.ok]
        said = f"{failed[0].launch}: {failed[0].message}" if failed else "compiled"
        style = "red" if failed else ""
        table.add_row(kernel, target, f"{len(group)}", said, style=style)
    return table


def _table(*names: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "-" if math.isinf(value) else "NaN"
    return f"{value:.1e}" if value else "0"
