"""Java's hashes, by values that Java has printed."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kcoord.java_hashing import (
    HashedSet,
    hash_map_order,
    hash_set_order,
    string_hash,
    string_map_order,
    string_order,
    uuid_hash,
)


def test_texts_are_hashed_by_utf_16_code_units() -> None:
    assert string_hash("") == 0
    assert string_hash("hello") == 99162322
    assert string_hash("consumer-1-7e0e5e0e-4b6d-4c0b-8f0e-0123456789ab") == 4217612419
    assert string_hash("\U0001f600") == 1772899


def test_an_id_is_hashed_by_its_four_parts() -> None:
    assert uuid_hash(UUID("7e0e5e0e-4b6d-4c0b-8f0e-0123456789ab")) == -16082291 & 0xFFFFFFFF


def test_texts_are_sorted_by_utf_16_code_units() -> None:
    assert sorted(["\uffee", "\U0001f600", "z"], key=string_order) == ["z", "\U0001f600", "\uffee"]


def test_a_map_has_its_keys_in_the_order_of_their_buckets() -> None:
    assert hash_map_order([33, 1, 17, 16, 2], int) == [16, 33, 1, 17, 2]
    assert hash_map_order(range(31, -1, -1), int) == list(range(32))
    members = [f"member-{number}" for number in range(40)]
    assert string_map_order(members)[:10] == [f"member-{number}" for number in (19, 18, 17, 39, 16, 38, 5, 15, 37, 6)]


def test_a_set_made_from_a_collection_has_buckets_for_all_of_it() -> None:
    numbers = [5, 37, 21, 300, 70000, 12, 13, 14, 15, 16, 17, 18, 19, 20, 64]
    assert hash_set_order(numbers, int) == [64, 5, 37, 300, 12, 13, 14, 15, 16, 70000, 17, 18, 19, 20, 21]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 200)), max_size=100))
def test_a_set_that_changes_finds_its_first_element(changes: list[tuple[bool, int]]) -> None:
    hashed, present = HashedSet(), dict[int, None]()
    largest = 0
    for adds, number in changes:
        if adds:
            hashed.add(number, number)
            present.setdefault(number)
            largest = max(largest, len(present))
        elif number in present:
            hashed.remove(number)
            del present[number]
        assert bool(hashed) == bool(present)
        if present:
            buckets = 16
            while largest > buckets * 3 // 4:
                buckets *= 2
            assert hashed.first() == min(present, key=lambda each: each % buckets)
