"""The one list of Kafka's API keys."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.index import api_key_map

from kcoord.api_keys import ApiKey

_root = Path(__file__).parent.parent
_before_kraft = {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN}


def test_all_apis_of_kio_are_listed_under_their_names() -> None:
    assert {key.value: key.name.lower() for key in ApiKey if key not in _before_kraft} == api_key_map


@pytest.mark.parametrize(
    ("api_key", "title"),
    [
        (ApiKey.FETCH, "Fetch"),
        (ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn"),
        (ApiKey.LEADER_AND_ISR, "LeaderAndIsr"),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch"),
    ],
)
def test_the_title_is_kafkas_english_name(api_key: ApiKey, title: str) -> None:
    assert api_key.title == title


def test_texts_and_json_show_a_key_as_its_number() -> None:
    key = ApiKey.OFFSET_COMMIT
    assert f"{key} {key!s} " + "%s %d" % (key, key) == "8 8 8 8"  # noqa: UP031 - as logging formats
    assert json.dumps({key: key}) == '{"8": 8}'


def test_keys_from_the_wire_find_what_is_stored_by_member() -> None:
    by_key: dict[int, str] = {ApiKey.FETCH: "fetch"}
    assert by_key[int("1")] == "fetch"
    assert int("1") in {ApiKey.FETCH}


def test_no_other_module_defines_the_number_of_an_api() -> None:
    assert sorted(_constants()) == []


def _constants() -> Iterator[str]:
    """Yields the assignments of the number of an API to a variable of its name."""
    for folder in ("kcoord", "commands", "tests"):
        for path in (_root / folder).rglob("*.py"):
            if path.name == "api_keys.py":
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                for name, value in _assigned(node):
                    member = ApiKey.__members__.get(name.strip("_").upper())
                    if member is not None and value == member:
                        yield f"{path.relative_to(_root)}:{node.lineno}: {name} = {value}"  # type: ignore[attr-defined]


def _assigned(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yields the names and integers of `A = 1`, `A: Final = 1` and `A, B = 1, 2`."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            pairs = list(zip(names, values, strict=False))
        case ast.Assign(targets=[name], value=value) | ast.AnnAssign(target=name, value=ast.expr() as value):
            pairs = [(name, value)]
        case _:
            return
    for target, constant in pairs:
        match target, constant:
            case ast.Name(id=variable), ast.Constant(value=int(number)):
                yield variable, number
