"""Tests of YAML documents, read back by PyYAML."""

from importlib import import_module
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

yaml_text: Any = import_module("kcoord.commands.output.yaml_text").yaml_text  # by name: mypy sees the folder, commands/


def test_a_document_is_in_block_style_in_its_own_order() -> None:
    document = {
        "kcoord": "groups-list/v1",
        "groups": [
            {"group": "payments", "members": [{"id": "a", "topics": ["t1", "t2"]}], "lag": None},
            {"group": "b", "members": [], "settings": {}},
        ],
        "nested": [[1, 2], [[3]], []],
        "is_stable": True,
    }
    text = yaml_text(document)
    assert text == (
        "kcoord: groups-list/v1\n"
        "groups:\n"
        "  - group: payments\n"
        "    members:\n"
        "      - id: a\n"
        "        topics:\n"
        "          - t1\n"
        "          - t2\n"
        "    lag: null\n"
        "  - group: b\n"
        "    members: []\n"
        "    settings: {}\n"
        "nested:\n"
        "  - - 1\n"
        "    - 2\n"
        "  - - - 3\n"
        "  - []\n"
        "is_stable: true\n"
    )
    assert yaml.safe_load(text) == document


OTHER_WORDS = """
    yes no null ~ true False ON off y N
    1 -1 +1 1_000 0x1F 0o7 017 0b1 0b12 1__0 1.5 .5 1e3 1E-3 e3 1e .inf -.Inf .nan
    12:30 12:30:45 1: 2024-05-01 2024-05-01T10:00:00Z
    - -- --- ... -x .x 1x _ _1 = =1 << /x a:b a: :a : :: a#b # #a
    ? & * ! % @ ` | > ' " { } [ ] ,
"""


def test_words_that_yaml_could_read_otherwise_are_read_back_as_they_were() -> None:
    document = {word: {word: [word]} for word in OTHER_WORDS.split()}
    assert yaml.safe_load(yaml_text(document)) == document


@pytest.mark.parametrize(
    "text", ["", " ", " a", "a ", "a: b", "a #b", "a\tb", "two\nlines", "\x1b[31m", "\x7f", "\x85", "\u2028", "\ufeff"]
)
def test_blanks_and_controls_are_quoted_and_only_printable_text_comes_out(text: str) -> None:
    written = yaml_text({"name": text})
    assert yaml.safe_load(written) == {"name": text}
    assert all(line.isprintable() for line in written.split("\n"))


def test_names_stay_readable_unless_the_terminal_knows_only_ascii() -> None:
    assert yaml_text({"g": "日本 🎉"}) == 'g: "日本 🎉"\n'
    assert yaml_text({"g": "日本 🎉"}, ascii_only=True) == 'g: "\\u65e5\\u672c \\U0001f389"\n'
    assert yaml.safe_load(yaml_text({"g": "日本 🎉"}, ascii_only=True)) == {"g": "日本 🎉"}


@pytest.mark.parametrize("number", [0, -1, 2**63, 1.5, -0.0, 1e300, 1e-7, 123456789.125])
def test_numbers_are_read_back_as_they_were(number: float) -> None:
    assert yaml.safe_load(yaml_text({"n": number})) == {"n": number}


def test_a_time_stays_a_text() -> None:
    document = {"at": "2024-05-01T10:00:00.123Z"}
    assert yaml.safe_load(yaml_text(document)) == document


def test_what_no_document_holds_is_our_mistake() -> None:
    with pytest.raises(TypeError, match="set is nothing that a document holds"):
        yaml_text({"x": {1, 2}})


NAMES = st.text(st.characters(codec="utf-8"), max_size=12)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | NAMES
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.booleans())
def test_every_document_is_read_back_as_it_was(document: dict[str, Any], ascii_only: bool) -> None:
    text = yaml_text(document, ascii_only=ascii_only)
    assert (yaml.safe_load(text) or {}) == document
    assert text.isascii() or not ascii_only
