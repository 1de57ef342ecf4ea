"""Refusals: what commands print of them, and how code tells what they are about."""

import pytest

from kcoord.admin.model import Refusal, Resource, TopicPartition, refused_names
from kcoord.errors import ErrorCode

FORBIDDEN = ErrorCode.group_authorization_failed


@pytest.mark.parametrize(
    ("kind", "name", "group", "what", "group_name"),
    [
        (Resource.GROUP, "g1", None, "group g1", "g1"),
        (Resource.GROUP, "", None, "group ", ""),
        (Resource.GROUP, "topic t", None, "group topic t", "topic t"),
        (Resource.TOPIC, "group g1", None, "topic group g1", ""),
        (Resource.BROKER, "2", None, "broker 2", ""),
        (Resource.BROKER, "", None, "a broker", ""),
        (Resource.PARTITION, TopicPartition("t", 0), None, "partition t-0", ""),
        (Resource.PARTITION, TopicPartition("t", 0), "g1", "group g1, partition t-0", "g1"),
        (Resource.MEMBER, "m-1", "g1", "group g1, member m-1", "g1"),
        (Resource.INSTANCE, "i-1", "g1", "group g1, instance i-1", "g1"),
    ],
)
def test_a_refusal_says_what_it_is_about(
    kind: Resource, name: str | TopicPartition, group: str | None, what: str, group_name: str
) -> None:
    refusal = Refusal(kind=kind, name=name, group=group, error=FORBIDDEN)
    assert (refusal.what, refusal.group_name) == (what, group_name)
    assert str(refusal) == f"{what}: GROUP_AUTHORIZATION_FAILED"


def test_a_message_follows_the_error() -> None:
    refusal = Refusal(kind=Resource.GROUP, name="g1", error=FORBIDDEN, message="not here")
    assert str(refusal) == "group g1: GROUP_AUTHORIZATION_FAILED (not here)"


def test_the_names_of_one_kind_are_found_whatever_else_was_refused() -> None:
    refusals = (
        Refusal(kind=Resource.GROUP, name="a", error=FORBIDDEN),
        Refusal(kind=Resource.GROUP, name="b", error=ErrorCode.group_id_not_found),
        Refusal(kind=Resource.TOPIC, name="c", error=FORBIDDEN),
        Refusal(kind=Resource.MEMBER, name="d", group="g", error=FORBIDDEN),
    )
    assert refused_names(refusals, Resource.GROUP) == {"a", "b"}
    assert refused_names(refusals, Resource.GROUP, errors={FORBIDDEN}) == {"a"}
    assert refused_names(refusals, Resource.BROKER) == frozenset()
