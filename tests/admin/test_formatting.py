"""Formats of members, partitions and counts."""

import pytest

from kcoord.admin.formatting import (
    first_few,
    format_count,
    format_member,
    format_partitions,
    format_shares,
    rate_text,
)
from kcoord.admin.model import Member, TopicPartition


def _member(client_id: str = "billing-1", instance_id: str | None = None) -> Member:
    return Member(
        member_id="billing-1-77", instance_id=instance_id, client_id=client_id, host="/10.0.0.7", assignment=None
    )


def test_a_member_is_named_by_client_id_host_and_what_identifies_it() -> None:
    assert format_member(_member()) == "billing-1 10.0.0.7 (billing-1-77)"
    assert format_member(_member(instance_id="i-1")) == "billing-1 10.0.0.7 (instance i-1)"
    assert format_member(_member(client_id="")) == "10.0.0.7 (billing-1-77)"


def test_partitions_are_told_in_ranges() -> None:
    partitions = [TopicPartition("orders", number) for number in (3, 0, 1, 7, 2, 9, 10)]
    assert format_partitions([*partitions, TopicPartition("a", 4), TopicPartition("a", 4)]) == "a 4; orders 0-3,7,9-10"
    assert format_partitions([]) == ""


def test_shares_of_many_members_are_counted() -> None:
    assert format_shares([2, 3, 3]) == "3, 3, 2"
    assert format_shares([3] * 10 + [4] * 3) == "3 × 4, 10 × 3"
    assert format_shares([]) == ""


def test_long_lists_end_in_how_many_are_left_out() -> None:
    assert first_few(["a", "b"], limit=2) == ("a", "b")
    assert first_few(["a", "b", "c", "d"], limit=2) == ("a", "and 3 more")


def test_counts_agree_with_their_thing() -> None:
    assert format_count(1, "member") == "1 member"
    assert format_count(0, "member") == "0 members"
    assert format_count(12000, "record") == "12,000 records"


@pytest.mark.parametrize(
    ("rate", "text"), [(0, "0/s"), (0.01, "0/s"), (0.26, "0.3/s"), (9.96, "10/s"), (1234.5, "1,234/s"), (-3, "-3.0/s")]
)
def test_rates_have_as_many_digits_as_matter(rate: float, text: str) -> None:
    assert rate_text(rate) == text
