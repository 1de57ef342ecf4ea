"""Target offsets of resets. tests/integration/offsets/test_like_kafka.py shows that Kafka's tool gives the same."""

import pytest

from kcoord.admin.model import Bounds, Committed, FoundOffset, TopicPartition
from kcoord.admin.offsets.plans import Flag
from kcoord.admin.offsets.resetting import (
    CannotReset,
    OffsetsFromFile,
    ResetInputs,
    ShiftBy,
    Target,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTime,
    target_offsets,
)

READ = TopicPartition("orders", 0)  # 10 to 100, committed 50
NEW = TopicPartition("orders", 1)  # 10 to 100, nothing committed
EMPTY = TopicPartition("orders", 2)  # empty at 7, nothing committed
LOST = TopicPartition("orders", 3)  # 10 to 100, committed 5

FACTS = ResetInputs(
    committed={READ: Committed(50, 3, "note"), LOST: Committed(5)},
    bounds={READ: Bounds(10, 100), NEW: Bounds(10, 100), EMPTY: Bounds(7, 7), LOST: Bounds(10, 100)},
    found={READ: FoundOffset(30, 1_700_000_000_000, 2), NEW: FoundOffset(-1, -1), EMPTY: FoundOffset(-1, -1)},
    topic_ids={"orders": "here"},
)


def aimed(target: Target, tp: TopicPartition) -> tuple[Committed, list[Flag]]:
    target_offset = target_offsets(target, [tp], FACTS)[tp]
    return target_offset.new, [note.flag for note in target_offset.notes]


@pytest.mark.parametrize(
    ("target", "tp", "offset", "flags"),
    [
        (ToEarliest(), READ, 10, []),
        (ToEarliest(), NEW, 10, []),
        (ToEarliest(), EMPTY, 7, []),
        (ToLatest(), READ, 100, []),
        (ToLatest(), NEW, 100, []),
        (ToLatest(), EMPTY, 7, []),
        (ToCurrent(), NEW, 100, [Flag.NOTHING_COMMITTED]),
        (ToOffset(offset=10), READ, 10, []),
        (ToOffset(offset=100), NEW, 100, []),
        (ToOffset(offset=101), READ, 100, [Flag.CLAMPED_TO_END]),
        (ToOffset(offset=9), READ, 10, [Flag.CLAMPED_TO_START]),
        (ToOffset(offset=-5), READ, 10, [Flag.CLAMPED_TO_START]),
        (ToOffset(offset=5), EMPTY, 7, [Flag.CLAMPED_TO_START]),
        (ShiftBy(by=50), READ, 100, []),
        (ShiftBy(by=51), READ, 100, [Flag.CLAMPED_TO_END]),
        (ShiftBy(by=-41), READ, 10, [Flag.CLAMPED_TO_START]),
        (ShiftBy(by=6), LOST, 11, []),
        (ToTime(timestamp=1), READ, 30, []),
        (ToTime(timestamp=1), NEW, 100, [Flag.NO_RECORD_THAT_NEW]),
        (ToTime(timestamp=1), EMPTY, 7, [Flag.NO_RECORD_THAT_NEW]),
    ],
)
def test_a_target_leads_to_an_offset_and_flags_what_is_not_as_asked(
    target: Target, tp: TopicPartition, offset: int, flags: list[Flag]
) -> None:
    assert aimed(target, tp) == (Committed(offset), flags)


def test_the_current_offset_stays_as_it_is_with_all_that_was_committed() -> None:
    assert aimed(ToCurrent(), READ) == (Committed(50, 3, "note"), [])
    assert aimed(ToCurrent(), LOST) == (Committed(5), [Flag.OUT_OF_RANGE])


def test_nothing_is_shifted_if_one_partition_has_nothing_committed() -> None:
    with pytest.raises(CannotReset, match="nothing is committed for orders 1-2, so there is nothing to shift"):
        target_offsets(ShiftBy(by=1), [READ, NEW, EMPTY], FACTS)


def test_every_flag_says_why() -> None:
    (clamped,) = target_offsets(ToOffset(offset=5), [READ], FACTS)[READ].notes
    assert clamped.reason == "5 is before the start of the log, 10"
    (no_record,) = target_offsets(ToTime(timestamp=1_700_000_000_000), [NEW], FACTS)[NEW].notes
    assert no_record.reason == "no record is as new as 2023-11-14T22:13:20.000Z: the end of the log is taken"
    (empty,) = target_offsets(ToTime(timestamp=1), [EMPTY], FACTS)[EMPTY].notes
    assert empty.reason == "the log is empty: the end of the log is taken"


LISTED = {READ: Committed(20, 4, "mine"), NEW: Committed(200, 4, "mine")}


def test_a_listed_offset_keeps_its_epoch_and_metadata_in_the_very_same_topic() -> None:
    same = OffsetsFromFile(offsets=LISTED, topic_ids={"orders": "here"})
    assert aimed(same, READ) == (Committed(20, 4, "mine"), [])
    assert aimed(same, NEW) == (Committed(100), [Flag.CLAMPED_TO_END])


def test_a_listed_offset_of_another_topic_of_that_name_loses_its_epoch_and_is_flagged() -> None:
    other = OffsetsFromFile(offsets=LISTED, topic_ids={"orders": "elsewhere"})
    assert aimed(other, READ) == (Committed(20, -1, "mine"), [Flag.OTHER_TOPIC_ID])
    assert aimed(other, NEW) == (Committed(100), [Flag.OTHER_TOPIC_ID, Flag.CLAMPED_TO_END])


def test_a_listed_offset_loses_its_epoch_where_nobody_knows_ids_of_topics() -> None:
    facts = ResetInputs(committed={}, bounds=FACTS.bounds, topic_ids={"orders": None})
    target_offset = target_offsets(OffsetsFromFile(offsets={READ: Committed(60, 3, "note")}), [READ], facts)[READ]
    assert (target_offset.new, target_offset.notes) == (Committed(60, -1, "note"), ())


def test_a_listed_offset_of_an_unknown_topic_id_loses_its_epoch_only() -> None:
    assert aimed(OffsetsFromFile(offsets=LISTED), READ) == (Committed(20, -1, "mine"), [])
