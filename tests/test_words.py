"""The names and docstrings of the code use the field's words, and those that were retired do not come back.

A word is retired where it had several meanings here, or none outside of this project. The table names better ones.
"""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

_root = Path(__file__).parent.parent
_product = sorted(path for folder in ("kcoord", "commands") for path in (_root / folder).rglob("*.py"))
_tests = sorted((_root / "tests").rglob("*.py"))

_RETIRED = {
    "told tell tells telling": "emit, respond, report, log, format",
    "say says said saying": "format, name, log; response, message",
    "look looks looked looking": "poll, snapshot, scan, read, sample",
    "settle settles settled settling": "drain, retry, fold, complete, reconcile",
    "keep keeps kept keeping": "flush, append, apply, persist, retain, buffer, cache",
    "stand stands standing stood": "cached, prevalidated, pending, remaining",
    "usual": "common, default, template",
    "aside beside": "staged, separate; next to, piggybacked",
    "place places": "position, endpoint, partition, index, folder",
    "alike": "same, identical, columnar",
    "heir losses": "recreated topic, deletion epoch",
    "fate world wish": "status, cluster state, config",
    "aim aims": "target",
    "own": "name whose it is",
    "asker rider lane": "client session, connection, batcher",
    "household chore chores": "maintenance",
    "gate entrance welcome": "pre-auth connection, secure listener, accept",
    "hear hears heard": "receive, on_message",
}
_INSTEAD = {word: instead for words, instead in _RETIRED.items() for word in words.split()}
_OF_OTHERS = re.compile(r"keep_?alive|keeps_up|look_up|stood_ms", re.IGNORECASE)
"""Names of the field that have a retired word in them, and the key `stood_ms` of a documented format."""

_RIDDLE = re.compile(r"(Of|The same|As|With|What is|To those|Those)\b")
"""How a docstring begins that cannot be understood alone."""


def _names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node.lineno


def _words(name: str) -> list[str]:
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", _OF_OTHERS.sub("", name)).lower().split("_")


def retired_in(source: str) -> list[str]:
    """Returns a line for each name that has a retired word in it. Names of tests are sentences, and exempt."""
    found = {}
    for name, line in _names(ast.parse(source)):
        for word in _words(name):
            if word in _INSTEAD and not name.startswith("test_"):
                found[name] = f"line {line}: {name} has {word!r}; say instead: {_INSTEAD[word]}"
    return list(found.values())


def riddles_in(source: str) -> list[str]:
    """Returns a line for each docstring of the source that begins as if it were the end of another one."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, documented) and not _is_command(node)]
    docstrings = [(node, ast.get_docstring(node)) for node in nodes]
    return [
        f"line {getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"
        for node, text in docstrings
        if text is not None and _RIDDLE.match(text)
    ]


def test_no_name_has_a_retired_word() -> None:
    assert _by_file(retired_in, [*_product, *_tests]) == {}


def test_no_docstring_needs_another_one_to_be_understood() -> None:
    assert _by_file(riddles_in, _product) == {}


def test_retired_words_are_found_in_all_kinds_of_names() -> None:
    source = "class Gate:\n    def is_told(self, world):\n        look = 1\n        self.kept_alive = 1\n"
    source += "def test_told(): ...\n"
    assert {line.split()[2] for line in retired_in(source)} == {"Gate", "is_told", "world", "look", "kept_alive"}
    assert retired_in("keep_alive = KeepAlive = lookup = replace = restated = 1") == []


def test_a_docstring_that_begins_with_of_is_found() -> None:
    source = '"""Of versions 16 to 18."""\n\ndef f() -> None:\n    """Offsets are read as they are."""\n'
    assert riddles_in(source) == ["line 1: Of versions 16 to 18."]


def _is_command(node: ast.AST) -> bool:
    """Returns whether click shows the docstring of this function as a help text."""
    decorators = [ast.unparse(each) for each in getattr(node, "decorator_list", [])]
    return any(re.search(r"\.(command|group)\(", each) for each in decorators)


def _by_file(check: Callable[[str], list[str]], paths: list[Path]) -> dict[str, list[str]]:
    found = {str(path.relative_to(_root)): check(path.read_text()) for path in paths}
    return {path: lines for path, lines in found.items() if lines}
