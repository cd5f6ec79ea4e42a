"""Declarations -> TensorDecl: dims, kinds and initial values."""

from __future__ import annotations

from attnc.ir.expr import Expr, Role, TensorDecl, constant_size
from attnc.ir.sizes import Size
from attnc.ir.types import BAD, Kind
from attnc.passes.expressions import Expressions
from attnc.passes.names import DIMS, Scope, malformed, taken
from attnc.passes.resolver import Place
from attnc.syntax import tree

KINDS = {"int": Kind.INT, "bool": Kind.BOOL, "float": Kind.FLOAT}
DIM_HINT = "dims are B H G L S d_k d_v, integers, `let`s, a new name, or arithmetic of these"
AXES = ("B", "H", "G", "L", "S")  # stay names, whatever the spec fixes them to


def enter_dims(scope: Scope) -> None:
    """Every new name in dims is a size."""
    seen: set[int] = set()
    for _, declaration in scope.declared.values():
        if id(declaration) in seen:
            continue
        seen.add(id(declaration))
        for dim in declaration.dims:
            _enter(dim, scope)


def _enter(node: tree.Node, scope: Scope) -> None:
    if isinstance(node, tree.Name):
        word = node.text
        if word in DIMS or word in scope.lets:
            return
        if word in scope.declared or word in scope.functions or taken(word):
            return  # reported where the dim is resolved
        if why := malformed(word):
            scope.report("E204", f"`{word}` cannot be a name: {why}", node.span, "rename it")
        scope.dims.setdefault(word, [])
    for child in tree.children(node):
        _enter(child, scope)


def declare(scope: Scope, expressions: Expressions) -> None:
    """Fill `scope.tensors`."""
    dims_of: dict[int, tuple[Size, ...] | None] = {}
    for name, (word, declaration) in scope.declared.items():
        key = id(declaration)
        if key not in dims_of:
            sizes = [_dim(dim, scope, expressions) for dim in declaration.dims]
            known = [size for size in sizes if size is not None]
            dims_of[key] = tuple(known) if len(known) == len(sizes) else None
        dims = dims_of[key]
        kind = _kind(declaration, scope)
        initial = _initial(declaration, scope, expressions)
        if dims is not None:
            role = Role(declaration.role.text)
            scope.tensors[name] = TensorDecl(name, role, kind, dims, initial, span=word.span)


def _dim(node: tree.Node, scope: Scope, expressions: Expressions) -> Size | None:
    if isinstance(node, tree.Name) and node.text in AXES:
        return Size.of(node.text)
    if isinstance(node, tree.Name) and (why := _no_size(node.text, scope)):
        scope.report("E220", f"`{node.text}` is {why}, not a size", node.span, DIM_HINT)
        return None
    expr: Expr = expressions.clause(node, Place("dims", hint="dims are sizes"))
    if expr.type == BAD:
        return None
    size = constant_size(expr)
    if size is None or (size.constant is not None and size.constant < 1):
        message = f"`{node.span.text}` is no size"
        scope.report("E220", message, node.span, DIM_HINT)
        return None
    return size


def _no_size(word: str, scope: Scope) -> str:
    if word in scope.lets or word in scope.dims or word in DIMS:
        return ""
    if word in scope.declared:
        return "a tensor"
    return "a function" if word in scope.functions else taken(word)


def _kind(declaration: tree.Declaration, scope: Scope) -> Kind:
    word = declaration.kind
    if word is None:
        return Kind.FLOAT
    if word.text not in KINDS:
        hint = "write `int`, `bool`, or nothing for floating point"
        scope.report("E220", f"there is no kind `{word.text}` of tensors", word.span, hint)
        return Kind.BAD
    kind = KINDS[word.text]
    if kind is not Kind.FLOAT and declaration.role.text != "input":
        message = f"a {declaration.role.text} is floating point"
        scope.report("E220", message, word.span, f"only an `input` may be `{word.text}`")
    return kind


def _initial(declaration: tree.Declaration, scope: Scope, expressions: Expressions) -> float | None:
    node = declaration.initial
    if node is None:
        return None
    if declaration.role.text != "param":
        what = {"input": "is given at each call", "buffer": "is random"}[declaration.role.text]
        message = f"an initial value belongs to a param; this {declaration.role.text} {what}"
        scope.report("E220", message, node.span, "remove it")
        return None
    value = expressions.numbers.number(node, "param")
    if isinstance(value, bool):
        scope.report("E209", "an initial value is a number", node.span, "e.g. `= 0.5`")
    return None if value is None else float(value)
