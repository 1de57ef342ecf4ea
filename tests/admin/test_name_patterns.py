"""Patterns over names with newlines."""

import re

import pytest

from kcoord.admin.groups.selection import matching_names
from kcoord.admin.name_patterns import compile_name_pattern
from kcoord.proxy.guards.guard_rules import parse_rate, parse_rule, parse_size


@pytest.mark.parametrize("name", ["secret", "secret\nx", "secret\n", "secret\r\n\n", "secret\u2028x"])
def test_a_rule_is_about_names_with_newlines_too(name: str) -> None:
    assert parse_rule("groups:secret.*").matches(name)
    for limit in (parse_size("2:secret.*"), parse_rate("2/5m:secret.*")):
        assert limit.pattern is not None
        assert limit.pattern.fullmatch(name)


def test_the_end_of_a_name_is_not_before_its_last_newline() -> None:
    assert matching_names(["tmp", "tmp\n", "tmp\nx"], "tmp$") == ["tmp"]
    assert matching_names(["tmp", "tmp\n", "a\nb"], "^a.b$") == ["a\nb"]


@pytest.mark.parametrize(
    ("pattern", "name", "is_found"),
    [
        (r"a\$", "a$", True),
        (r"[$]", "$", True),
        (r"[]$]", "$", True),
        (r"[^$]", "$", False),
        (r"[\]$]$", "x$", True),
        (r"\\$", "\\", True),
        (r"\\$", "\\\n", False),
        (r"(?m)^a$", "a\nb", True),
    ],
)
def test_a_dollar_that_is_no_end_stays_one(pattern: str, name: str, is_found: bool) -> None:
    assert bool(compile_name_pattern(pattern).search(name)) is is_found


def test_what_is_no_pattern_is_refused() -> None:
    with pytest.raises(re.error):
        compile_name_pattern("a(")
