"""Parsing the rules that operators write."""

from datetime import timedelta
from pathlib import Path

import pytest

from kcoord.api_keys import ApiKey
from kcoord.protocol.codec import known_versions
from kcoord.proxy.guards.guard_rules import BadRule, parse_rate, parse_rule, parse_size
from kcoord.proxy.guards.guarded_apis import FAMILIES, GUARDED, Reach
from kcoord.proxy.observing.observed_group import Cause

SETTINGS = frozenset({32, 33, 44})


def test_an_api_is_named_as_kafka_names_it_in_any_case() -> None:
    assert parse_rule("JoinGroup").apis == parse_rule("joingroup").apis == frozenset({11})


def test_a_name_means_one_thing() -> None:
    names = {api.name.lower(): {api.key} for api in GUARDED.values() if not api.cannot_be_denied}
    assert all(parse_rule(name).apis == keys for name, keys in names.items())


def test_a_family_is_all_apis_of_a_kind() -> None:
    names = {GUARDED[key].name for key in parse_rule("admin").apis}
    assert {"CreateTopics", "DeleteTopics", "AlterConfigs", "CreateAcls"} <= names
    assert not {"DescribeConfigs", "Produce", "JoinGroup"} & names
    assert FAMILIES == ("produce", "consume", "groups", "admin", "transactions", "brokers", "describe", "telemetry")


def test_a_regex_narrows_a_family_to_what_names_groups() -> None:
    by_name, all_of_it = parse_rule("groups:a|b").apis, parse_rule("groups").apis
    list_groups = ApiKey.LIST_GROUPS
    assert list_groups in all_of_it - by_name
    assert by_name - all_of_it == {ApiKey.FIND_COORDINATOR, *SETTINGS}


def test_a_regex_behind_other_families_is_about_settings_of_groups() -> None:
    assert parse_rule("admin:a|b").apis | parse_rule("describe:a|b").apis == SETTINGS


def test_only_a_family_may_have_members_that_nobody_knows_yet() -> None:
    for text, is_of_family in (("admin", True), ("Groups:team-.*", True), ("Fetch", False), ("JoinGroup:a", False)):
        assert parse_rule(text).is_of_family is is_of_family


def test_a_regex_matches_whole_names_and_may_have_colons() -> None:
    rule = parse_rule("JoinGroup:team:[ab]")
    assert [rule.matches(name) for name in ("team:a", "team:ab", "my-team:a")] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Jion", "'Jion' is neither an API of Kafka's nor one of produce, consume, groups"),
        ("", "is neither an API"),
        ("Fetch:g", "requests of Fetch name no groups"),
        ("telemetry:g", "requests of telemetry name no groups"),
        ("JoinGroup:", "the regex behind the colon is missing"),
        ("JoinGroup:(", "not a regular expression"),
        ("Metadata", "Metadata cannot be refused, as clients would see no cluster"),
        ("SaslHandshake", "clients could not log in"),
    ],
)
def test_a_rule_that_would_do_nothing_says_why(text: str, why: str) -> None:
    with pytest.raises(BadRule, match=why.replace("(", r"\(")):
        parse_rule(text)


def test_limits_are_numbers_for_all_groups_or_some() -> None:
    assert parse_size("50").members == 50
    size = parse_size("5:team-.*")
    assert size.pattern
    assert size.pattern.pattern == "team-.*"
    rate = parse_rate("10/1h30m:team-.*")
    assert (rate.rebalances, rate.span) == (10, timedelta(minutes=90))


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "5.5", ":g", "٣"])
def test_a_size_is_a_number_above_0(text: str) -> None:
    with pytest.raises(BadRule, match="begins with no number above 0"):
        parse_size(text)


@pytest.mark.parametrize("text", ["10", "10/", "10/soon", "0/5m", "10/0s", "/5m"])
def test_a_rate_is_a_number_and_a_time(text: str) -> None:
    with pytest.raises(BadRule):
        parse_rate(text)


_IN_READ_ONLY_MODE = {Reach.NOTHING: "passes", Reach.UPSTREAM: "refused", Reach.GROUPS: "refused upstream"}


def test_the_page_of_guards_says_of_every_api_what_the_table_says() -> None:
    page = (Path(__file__).parents[3] / "docs" / "guards.md").read_text(encoding="utf-8")
    for api in GUARDED.values():
        families = " ".join(api.families) or "–"
        names_groups = "yes" if api.group_field else "–"
        error = api.error.name.upper() if known_versions(api.key) else "hanging up"
        error = "–" if api.cannot_be_denied else error
        row = f"| {api.name} | {families} | {_IN_READ_ONLY_MODE[api.reach]} | {names_groups} | {error} |\n"
        assert row in page


def test_the_page_of_guards_names_every_cause() -> None:
    page = (Path(__file__).parents[3] / "docs" / "guards.md").read_text(encoding="utf-8")
    assert all(f"| {cause} |" in page for cause in Cause)
