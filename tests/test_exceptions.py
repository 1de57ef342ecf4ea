"""The family of exceptions: each class says by its base what has failed."""

import ast
import builtins
from pathlib import Path

import pytest

from kcoord import exceptions
from kcoord.client.connect_errors import CannotConnect, Disconnected, NoAnswer
from kcoord.exceptions import CorruptData, InvalidInput, LocalFailure, RemoteFailure
from kcoord.storage.data_dir import BadDataDir

_root = Path(__file__).parent.parent
_bases = (CorruptData, RemoteFailure, LocalFailure, InvalidInput)
_base_names = {base.__name__ for base in _bases}
_builtin_names = {
    name for name, each in vars(builtins).items() if isinstance(each, type) and issubclass(each, BaseException)
}
_outside_the_family = {
    "Interrupted": "a signal, which must pass every `except Exception` as KeyboardInterrupt does",
    "_Ended": "it ends the thread that reads snapshots, and is no failure",
}
"""Exception classes without one of the bases, and the reason for each."""


def _classes() -> dict[str, set[str]]:
    """Returns the names of the bases of each class of kcoord and of the command line."""
    classes: dict[str, set[str]] = {}
    for path in (*(_root / "kcoord").rglob("*.py"), *(_root / "commands").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                named = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                classes.setdefault(node.name, set()).update(named)
    return classes


def _ancestors(name: str, classes: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    pending = [name]
    while pending:
        for base in classes.get(pending.pop(), ()):
            if base not in found:
                found.add(base)
                pending.append(base)
    return found


def _exceptions() -> dict[str, set[str]]:
    """Returns all ancestors of each exception class, but for the four bases themselves."""
    classes = _classes()
    all_ancestors = {name: _ancestors(name, classes) for name in classes.keys() - _base_names}
    known = _builtin_names | _base_names | {"ClickException", "UsageError", "BadParameter"}
    return {name: ancestors for name, ancestors in all_ancestors.items() if ancestors & known}


def test_every_exception_class_derives_from_exactly_one_base_or_is_listed_with_a_reason() -> None:
    found = _exceptions()
    assert len(found) > 80
    assert {
        name for name, ancestors in found.items() if len(ancestors & _base_names) != 1
    } == _outside_the_family.keys()


def test_the_bases_are_those_of_the_table_and_catch_nothing_of_each_other_or_of_python() -> None:
    defined = {name for name, each in vars(exceptions).items() if isinstance(each, type)}
    assert defined == _base_names
    assert exceptions.__doc__ is not None
    for base in _bases:
        assert base.__bases__ == (Exception,)
        assert f"| {base.__name__} " in exceptions.__doc__


def test_every_example_of_the_table_exists() -> None:
    assert exceptions.__doc__ is not None
    rows = [row.split("|") for row in exceptions.__doc__.splitlines() if row.startswith("| ")]
    examples = {name.strip() for row in rows[1:] for name in row[3].split(",") if name.strip()}
    assert len(examples) > 15
    assert examples <= _exceptions().keys()


@pytest.mark.parametrize("kind", [CannotConnect, Disconnected, NoAnswer])
def test_a_remote_failure_of_a_connection_is_a_connection_error_with_its_number_and_text(
    kind: type[ConnectionError],
) -> None:
    error = kind(111, "refused", "host:1")
    assert isinstance(error, RemoteFailure)
    assert (error.errno, error.strerror, error.filename) == (111, "refused", "host:1")
    assert str(kind("no route")) == "no route"


def test_a_class_without_a_builtin_base_is_caught_by_its_base_alone() -> None:
    assert BadDataDir.__bases__ == (LocalFailure,)
