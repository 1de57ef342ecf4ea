import pytest

from kcoord.protocol.consumer_protocol import read_assignment
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
