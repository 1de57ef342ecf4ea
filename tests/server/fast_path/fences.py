"""The checks of the ordinary path, read from its source: every condition under which a request may be refused.

Starting at the coordinator's function for a request, all functions of kcoord.groups that it may call are searched for
what gives an error: a member of ErrorCode, a constant made of some, or a call of a function that returns one.
"""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path(__file__).parents[3]
_GROUPS: Final = _ROOT / "kcoord" / "groups"
_COORDINATOR: Final = ("coordinator", "registry")
"""The files of the coordinator's class and of its base."""


class Check(NamedTuple):
    """A condition in a function of kcoord.groups, and the error that it gives, or whose error it passes on."""

    function: str  # by its path below kcoord.groups
    condition: str
    error: str


class Function(NamedTuple):
    module: str  # below kcoord.groups
    tree: ast.FunctionDef

    @property
    def refuses(self) -> bool:
        """Whether the function returns an ErrorCode, or is named as one that refuses in any case."""
        returns = ast.unparse(self.tree.returns) if self.tree.returns is not None else ""
        return "ErrorCode" in returns or self.tree.name.startswith("_reject")


def checks_of(method: str) -> list[Check]:
    """Returns all checks of a method of the coordinator and of the functions that it may call."""
    return [check for name in sorted(_reached(f"coordinator.{method}")) for check in _checks_in(name)]


def _reached(start: str) -> set[str]:
    waiting, reached = [start], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += _names_in(name)
    return reached


def _names_in(function: str) -> Iterator[str]:
    """Returns the functions that a function names, and so may call."""
    module, tree = _functions()[function]
    for node in ast.walk(tree):
        target = _target(module, node)
        if target in _functions():
            yield target


def _target(module: str, node: ast.AST) -> str:
    """Returns what a name means in a module: a function or constant, by its path below kcoord.groups; or nothing."""
    match node:
        case ast.Name(id=name):
            return _imports()[module].get(name, f"{module}.{name}")
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            targets = [f"{each}.{name}" for each in _COORDINATOR if f"{each}.{name}" in _functions()]
            return targets[0] if targets else ""
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return f"{_imports()[module].get(name, name)}.{attribute}"
    return ""


def _checks_in(name: str) -> Iterator[Check]:
    module, tree = _functions()[name]
    for node, conditions in _with_conditions(tree, ()):
        error = _error(module, node)
        if error:
            yield Check(name, " and ".join(conditions) or "always", error)


def _error(module: str, node: ast.AST) -> str:
    """Returns what gives an error: the name of the error, of a constant, or of a function; or nothing."""
    match node:
        case ast.Attribute(value=ast.Name(id="ErrorCode"), attr=name) if name != "none":
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr="_refusal")):
            return "_refusal"
        case ast.Call(func=func):
            called = _functions().get(_target(module, func))
            return called.tree.name if called and called.refuses else ""
        case ast.Name(id=name) if _target(module, node) in _constants_of_errors():
            return name
    return ""


def _with_conditions(node: ast.AST, conditions: tuple[str, ...]) -> Iterator[tuple[ast.AST, tuple[str, ...]]]:
    """Walks a tree: yields each node with the conditions under which it is evaluated, or that it is part of."""
    yield node, conditions
    branches: list[tuple[Sequence[ast.AST], str]]
    match node:
        case ast.If(test=test, body=body, orelse=orelse):
            branches = [(body, f"({ast.unparse(test)})"), (orelse, f"not ({ast.unparse(test)})"), ([test], "")]
        case ast.IfExp(test=test, body=then, orelse=otherwise):
            branches = [([then], f"({ast.unparse(test)})"), ([otherwise], f"not ({ast.unparse(test)})"), ([test], "")]
        case ast.match_case(pattern=pattern, guard=guard, body=body):
            guarded = f" if {ast.unparse(guard)}" if guard else ""
            branches = [(body, f"case {ast.unparse(pattern)}{guarded}")]
        case ast.FunctionDef(body=body):
            branches = [(body, "")]
        case _:
            branches = [(list(ast.iter_child_nodes(node)), "")]
    for nodes, condition in branches:
        for each in nodes:
            yield from _with_conditions(each, (*conditions, condition) if condition else conditions)


@cache
def _trees() -> dict[str, ast.Module]:
    paths = [path for path in _GROUPS.rglob("*.py") if path.name != "__init__.py"]
    return {_dotted(path.relative_to(_GROUPS)): ast.parse(path.read_text()) for path in paths}


def _dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts)


@cache
def _functions() -> dict[str, Function]:
    """Returns all functions of kcoord.groups by their paths. The coordinator's methods are named without its class."""
    functions = {}
    for module, tree in _trees().items():
        classes = [each for each in tree.body if isinstance(each, ast.ClassDef)] if module in _COORDINATOR else []
        for each in [*tree.body, *(each for scope in classes for each in scope.body)]:
            if isinstance(each, ast.FunctionDef):
                functions[f"{module}.{each.name}"] = Function(module, each)
    return functions


@cache
def _imports() -> dict[str, dict[str, str]]:
    """Returns for each module what the names that it imports mean, as paths below kcoord.groups."""
    prefix = "kcoord.groups"
    return {
        module: {
            alias.asname or alias.name: f"{node.module}.{alias.name}".removeprefix(f"{prefix}.")
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(prefix)
            for alias in node.names
        }
        for module, tree in _trees().items()
    }


@cache
def _constants_of_errors() -> set[str]:
    """Returns the constants whose values are made of errors, such as the reply that refuses a superseded sync."""
    constants = set()
    for module, tree in _trees().items():
        for node in tree.body:
            match node:
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                    if "ErrorCode" in ast.unparse(node).partition("=")[2]:
                        constants.add(f"{module}.{name}")
    return constants
