"""Names that nothing uses, dims used once, and functions whose bodies nobody asked for."""

from __future__ import annotations

from attnc import prelude
from attnc.ir.ops import FUNCTIONS
from attnc.passes.expressions import Expressions
from attnc.passes.names import CONSTANTS, DIMS, INDICES, ROWS, Scope
from attnc.syntax import tree


def check_bodies(scope: Scope, expressions: Expressions) -> None:
    """Report unknown names and cycles in functions that no clause uses."""
    known = {*DIMS, *INDICES, *ROWS, *CONSTANTS, *FUNCTIONS, *prelude.functions()}
    known |= {"none", "on", "off", "add", "signed", *scope.own_names(), *scope.dims}
    for name, function in scope.functions.items():
        if name not in scope.used:
            parameters = {p.name.text for p in function.parameters}
            _check(function.body, known | parameters, expressions)


def _check(node: tree.Node, known: set[str], expressions: Expressions) -> None:
    if isinstance(node, tree.Name) and node.text not in known:
        expressions.unknown(node, node.text)
    if isinstance(node, tree.Apply) and node.function.text not in known:
        expressions.unknown(node, node.function.text, called=True)
    for child in tree.children(node):
        _check(child, known, expressions)


def warn(scope: Scope) -> None:
    """A dim used once is often a slip for L or S; what is unused is often a slip elsewhere."""
    for name, (word, declaration) in scope.declared.items():
        if name not in scope.used and name not in scope.broken:
            hint = "use it in a clause, or remove it"
            message = f"the {declaration.role.text} `{name}` is not used"
            scope.report("W202", message, word.span, hint)
    for name, function in scope.functions.items():
        if name not in scope.used and name not in scope.broken:
            hint = "use it in a clause, or remove it"
            scope.report("W202", f"the function `{name}` is not used", function.name.span, hint)
    for name, let in scope.lets.items():
        if name not in scope.used and name not in scope.broken:
            hint = "use it in a clause, or remove it"
            scope.report("W202", f"the number `{name}` is not used", let.name.span, hint)
    for name, places in scope.dims.items():
        if len(places) == 1:
            hint = "if it is a length, write L for that of the rows, S for that of the keys"
            message = f"the dim `{name}` is a size of its own, used only here"
            scope.report("W201", message, places[0], hint)
