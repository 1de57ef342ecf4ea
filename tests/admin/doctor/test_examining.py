"""The examination as a whole."""

from pathlib import Path

import pytest

from kcoord.admin.doctor.case import Facts
from kcoord.admin.doctor.examining import examine
from kcoord.admin.doctor.finding import Code, Severity
from kcoord.admin.model import Refusal, Resource
from kcoord.errors import ErrorCode
from tests.support.admin.snapshots import group, member, seen, snapshot

_page = (Path(__file__).parent.parent.parent.parent / "docs" / "doctor.md").read_text()


@pytest.mark.parametrize("code", Code)
def test_every_code_has_a_section_of_the_page(code: Code) -> None:
    assert f"### `{code}`" in _page


def test_the_page_has_no_code_that_the_doctor_does_not_know() -> None:
    sections = [line.strip("#` ") for line in _page.splitlines() if line.startswith("### ")]
    assert sorted(sections) == sorted(Code)


def test_findings_are_in_order_of_groups_the_worst_first() -> None:
    bad = seen(group(name="b", state="Empty"), {"t-0": (100, 250, 900)})
    mixed = seen(group(member("x", "t-0"), member("y", "u-0"), name="a"), {"t-0": (5, 0, 5), "u-0": (9, 0, 5)})
    found = examine([snapshot(bad, mixed)], Facts(consumer_config={}))
    assert [(each.group, each.severity, each.code) for each in found] == [
        ("a", Severity.ERROR, Code.OFFSET_BEYOND_LOG_END),
        ("a", Severity.WARNING, Code.MIXED_SUBSCRIPTIONS),
        ("b", Severity.ERROR, Code.OFFSET_BEFORE_LOG_START),
        ("b", Severity.NOTICE, Code.NO_MEMBERS),
        ("", Severity.NOTICE, Code.OFFSET_RESET_UNSAFE),
    ]


def test_what_was_refused_is_told_once_with_what_to_do() -> None:
    secret = Refusal(kind=Resource.GROUP, name="secret", error=ErrorCode.group_authorization_failed)
    (found,) = examine([snapshot(refused=[secret]), snapshot(refused=[secret], after=1)], Facts(), refused=[secret])
    assert (found.code, found.group) == (Code.NOT_EXAMINED, "secret")
    assert found.title == "could not be examined: group secret: GROUP_AUTHORIZATION_FAILED"
    assert found.advice == "Ask for the rights DESCRIBE and DESCRIBE_CONFIGS on the group."


def test_what_was_refused_for_a_time_only_is_a_notice() -> None:
    away = Refusal(kind=Resource.GROUP, name="g", error=ErrorCode.coordinator_not_available)
    (found,) = examine([snapshot(refused=[away]), snapshot(seen(group(member("a", "t-0"))), after=5)], Facts())
    assert found.severity is Severity.NOTICE
    assert found.title == "was not told for a time: group g: COORDINATOR_NOT_AVAILABLE"


def test_that_a_topic_does_not_exist_is_no_refusal() -> None:
    gone = Refusal(kind=Resource.TOPIC, name="t", error=ErrorCode.unknown_topic_or_partition)
    assert examine([snapshot(refused=[gone])], Facts()) == ()


def test_a_group_that_the_last_look_does_not_have_is_not_examined() -> None:
    gone = Refusal(kind=Resource.GROUP, name="g", error=ErrorCode.group_id_not_found)
    found = examine(
        [snapshot(seen(group(state="Empty"), {"t-0": (100, 250, 900)})), snapshot(refused=[gone], after=5)], Facts()
    )
    assert [(each.code, each.severity) for each in found] == [(Code.NOT_EXAMINED, Severity.NOTICE)]
    assert found[0].title == "was deleted meanwhile: group g: GROUP_ID_NOT_FOUND"


def test_no_looks_no_findings() -> None:
    assert examine([], Facts()) == ()


def test_severities_are_ordered() -> None:
    assert Severity.ERROR.is_at_least(Severity.WARNING)
    assert Severity.WARNING.is_at_least(Severity.WARNING)
    assert not Severity.NOTICE.is_at_least(Severity.WARNING)
