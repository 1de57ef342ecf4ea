"""Formats of members, partitions and counts."""

import pytest

from kcoord.admin.formatting import say_count, say_member, say_partitions, say_rate, say_some
from kcoord.admin.model import Member, TopicPartition


def _member(client_id: str = "billing-1", instance_id: str | None = None) -> Member:
    return Member(
        member_id="billing-1-77", instance_id=instance_id, client_id=client_id, host="/10.0.0.7", assignment=None
    )


def test_a_member_is_named_by_client_id_host_and_what_identifies_it() -> None:
    assert say_member(_member()) == "billing-1 10.0.0.7 (billing-1-77)"
    assert say_member(_member(instance_id="i-1")) == "billing-1 10.0.0.7 (instance i-1)"
    assert say_member(_member(client_id="")) == "10.0.0.7 (billing-1-77)"


def test_partitions_are_told_in_ranges() -> None:
    partitions = [TopicPartition("orders", number) for number in (3, 0, 1, 7, 2, 9, 10)]
    assert say_partitions([*partitions, TopicPartition("a", 4), TopicPartition("a", 4)]) == "a 4; orders 0-3,7,9-10"
    assert say_partitions([]) == ""


def test_long_lists_end_in_how_many_are_left_out() -> None:
    assert say_some(["a", "b"], limit=2) == ("a", "b")
    assert say_some(["a", "b", "c", "d"], limit=2) == ("a", "and 3 more")


def test_counts_agree_with_their_thing() -> None:
    assert say_count(1, "member") == "1 member"
    assert say_count(0, "member") == "0 members"
    assert say_count(12000, "record") == "12,000 records"


@pytest.mark.parametrize(
    ("rate", "said"), [(0, "0/s"), (0.01, "0/s"), (0.26, "0.3/s"), (9.96, "10/s"), (1234.5, "1,234/s"), (-3, "-3.0/s")]
)
def test_rates_have_as_many_digits_as_matter(rate: float, said: str) -> None:
    assert say_rate(rate) == said
