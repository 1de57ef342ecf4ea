import pytest

from kcoord.protocol.consumer_protocol import (
    VERSIONS,
    OwnedPartitions,
    Subscription,
    decode_subscription,
    read_assignment,
    read_cooperative_user_data,
    read_sticky_user_data,
    read_subscription,
    write_assignment,
    write_cooperative_user_data,
    write_sticky_user_data,
    write_subscription,
)
from kcoord.protocol.validate import CorruptMessage


def assignment(version: int, *topics: tuple[str, list[int]], user_data: bytes | None = None) -> bytes:
    lines = b"".join(
        len(name).to_bytes(2)
        + name.encode()
        + len(partitions).to_bytes(4)
        + b"".join(p.to_bytes(4) for p in partitions)
        for name, partitions in topics
    )
    tail = (-1).to_bytes(4, signed=True) if user_data is None else len(user_data).to_bytes(4) + user_data
    return version.to_bytes(2) + len(topics).to_bytes(4) + lines + tail


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_read_by_topic_in_every_version(version: int) -> None:
    plan = assignment(version, ("orders", [0, 3]), ("bills", [1]), user_data=b"of the assignor")
    assert read_assignment(plan) == {"orders": (0, 3), "bills": (1,)}


def test_a_newer_version_is_read_as_the_newest_that_is_known() -> None:
    assert read_assignment(assignment(99, ("orders", [7])) + b"something new") == {"orders": (7,)}


def test_a_topic_that_is_named_twice_has_the_partitions_of_both() -> None:
    assert read_assignment(assignment(0, ("orders", [0]), ("orders", [1]))) == {"orders": (0, 1)}


def test_no_bytes_are_no_partitions() -> None:
    assert read_assignment(b"") == {}


@pytest.mark.parametrize("cut", range(1, len(assignment(0, ("orders", [0, 3])))))
def test_an_assignment_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(CorruptMessage):
        read_assignment(assignment(0, ("orders", [0, 3]))[:cut])


@pytest.mark.parametrize("version", VERSIONS)
def test_an_assignment_that_is_written_is_read_again(version: int) -> None:
    plan = {"orders": range(3), "bills": [7]}
    assert read_assignment(write_assignment(plan, version=version)) == {"orders": (0, 1, 2), "bills": (7,)}
    assert write_assignment({"orders": [0, 3]}, version=version) == assignment(version, ("orders", [0, 3]))


FULL = Subscription(topics=("a", "b"), user_data=b"mine", owned={"a": (0, 2)}, generation=7, rack="r1")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, Subscription(topics=("a", "b"), user_data=b"mine")),
        (1, Subscription(topics=("a", "b"), user_data=b"mine", owned={"a": (0, 2)})),
        (2, Subscription(topics=("a", "b"), user_data=b"mine", owned={"a": (0, 2)}, generation=7)),
        (3, FULL),
    ],
)
def test_each_version_of_a_subscription_has_its_fields(version: int, expected: Subscription) -> None:
    written = write_subscription(FULL, version=version)
    assert decode_subscription(written) == expected
    assert read_subscription(written) == ("a", "b")


def test_a_subscription_of_a_newer_version_is_read_as_version_3() -> None:
    written = write_subscription(FULL)
    assert decode_subscription(b"\x00\x09" + written[2:] + b"something new") == FULL


def test_a_negative_generation_is_none_and_an_empty_rack_is_empty() -> None:
    assert decode_subscription(write_subscription(Subscription(topics=(), generation=-5, rack=""))) == Subscription(
        topics=(), rack=""
    )


@pytest.mark.parametrize("cut", range(len(write_subscription(FULL))))
def test_a_subscription_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(CorruptMessage):
        decode_subscription(write_subscription(FULL)[:cut])


def test_a_negative_version_is_refused() -> None:
    with pytest.raises(CorruptMessage, match="the version is -1"):
        decode_subscription(b"\xff\xff" + write_subscription(FULL)[2:])


@pytest.mark.parametrize("generation", [None, 0, 7])
def test_the_user_data_of_the_sticky_assignor_is_read_again(generation: int | None) -> None:
    data = OwnedPartitions(owned={"a": (0, 2), "b": (1,)}, generation=generation)
    assert read_sticky_user_data(write_sticky_user_data(data)) == data


def test_user_data_that_cannot_be_read_is_as_good_as_none() -> None:
    assert read_sticky_user_data(None) == read_sticky_user_data(b"") == OwnedPartitions()
    assert read_sticky_user_data(b"\xff" * 9) == OwnedPartitions(generation=-1)
    assert read_cooperative_user_data(None) is None
    assert read_cooperative_user_data(b"\x00") == -1


def test_the_user_data_of_the_cooperative_assignor_is_a_generation() -> None:
    assert read_cooperative_user_data(write_cooperative_user_data(7)) == 7
