"""Whether an offset means the same record in two logs, and the risks that follow."""

from dataclasses import replace

import pytest

from kcoord.admin.model import Bounds, Committed, TopicPartition
from kcoord.admin.offsets.comparing import Origin, TargetRecords, compare, origin_of
from kcoord.admin.offsets.files.offset_lines import OffsetLine
from kcoord.admin.offsets.plans import Comparison, Flag, GroupPlan, Note, OffsetChange, Risk, Verb, Verdict
from kcoord.admin.offsets.risks import add_risks, why_withheld
from kcoord.admin.record_marks import RecordMark

TP = TopicPartition("orders", 0)
LOG = Bounds(0, 300)


def mark(number: int, *, at: int | None = None, append_time: int | None = None) -> RecordMark:
    """Returns the mark of record `number`, at any offset."""
    return RecordMark(
        offset=number if at is None else at,
        timestamp=number * 1000 if append_time is None else append_time,
        is_append_time=append_time is not None,
        checksum=f"{number:08x}",
    )


def line(offset: int, next_record: RecordMark | None = None, last_record: RecordMark | None = None) -> OffsetLine:
    return OffsetLine(
        group="g",
        tp=TP,
        committed=Committed(offset),
        topic_id="one",
        cluster_id="a",
        bounds=LOG,
        next_record=next_record,
        last_record=last_record,
    )


def verdict(of: OffsetLine, *, bounds: Bounds = LOG, **records: RecordMark) -> Verdict:
    return compare(of, at=of.committed.offset, bounds=bounds, target=TargetRecords(**records)).verdict


# Comparing next records


def test_the_same_record_is_the_same_and_another_is_different() -> None:
    assert verdict(line(200, mark(200)), next=mark(200)) is Verdict.SAME
    assert verdict(line(200, mark(200)), next=mark(300, at=200)) is Verdict.DIFFERENT


def test_a_record_behind_a_marker_is_the_same_where_there_is_no_marker() -> None:
    """A transaction marker takes an offset in the source; a mirror does not have it."""
    assert verdict(line(200, mark(201)), next=mark(201, at=200)) is Verdict.SAME


def test_a_source_that_was_compacted_further_is_compared_at_the_offset_of_its_next_record() -> None:
    compacted = line(200, mark(205))
    assert verdict(compacted, next=mark(200), aligned=mark(205)) is Verdict.SAME
    assert verdict(compacted, next=mark(200), aligned=mark(900, at=205)) is Verdict.DIFFERENT
    assert verdict(compacted, next=mark(200), aligned=mark(205, at=207)) is Verdict.DIFFERENT, "it is elsewhere"


def test_a_target_without_a_next_record_is_different_and_says_whether_it_is_shifted_or_behind() -> None:
    reasons = {
        last: compare(line(200, mark(200)), at=200, bounds=Bounds(0, 200), target=TargetRecords(last=last)).reason
        for last in (mark(299, at=199), mark(199))
    }
    assert [reason.rpartition(": ")[2] for reason in reasons.values()] == [
        "records would be skipped",
        "the target does not have it yet",
    ]


def test_another_time_or_another_content_is_another_record() -> None:
    record = mark(200)
    assert verdict(line(200, record), next=replace(record, timestamp=1)) is Verdict.DIFFERENT
    assert verdict(line(200, record), next=replace(record, checksum="ffffffff")) is Verdict.DIFFERENT


def test_times_do_not_count_where_the_target_stamps_records_itself() -> None:
    assert verdict(line(200, mark(200)), next=mark(200, append_time=5)) is Verdict.SAME
    assert verdict(line(200, mark(200)), next=mark(201, at=200, append_time=5)) is Verdict.DIFFERENT
    assert verdict(line(200, mark(200, append_time=5)), next=mark(200)) is Verdict.DIFFERENT, "a mirror keeps the time"


def test_what_is_known_of_an_older_export_is_compared() -> None:
    by_time = line(200, RecordMark(timestamp=200_000))
    assert verdict(by_time, next=mark(200)) is Verdict.SAME
    assert verdict(by_time, next=mark(201)) is Verdict.DIFFERENT
    assert verdict(by_time, next=mark(200, append_time=5)) is Verdict.UNKNOWN


# Without a next record


def test_at_the_end_the_records_before_decide() -> None:
    at_end = line(300, last_record=mark(299))
    assert verdict(at_end, last=mark(299)) is Verdict.SAME
    assert verdict(at_end, last=mark(299), next=mark(300)) is Verdict.SAME, "the target has more since"
    assert verdict(at_end, last=mark(399, at=299)) is Verdict.DIFFERENT
    assert verdict(at_end, bounds=Bounds(300, 400), next=mark(300)) is Verdict.SAME, "there is nothing before it"
    assert verdict(at_end) is Verdict.UNKNOWN


def test_a_source_without_any_record_is_compared_by_the_ends_of_the_logs() -> None:
    emptied = replace(line(300), bounds=Bounds(300, 300))
    assert verdict(emptied, bounds=Bounds(0, 300)) is Verdict.SAME
    assert verdict(emptied, bounds=Bounds(300, 350)) is Verdict.SAME
    assert verdict(emptied, bounds=Bounds(0, 350)) is Verdict.UNKNOWN
    assert verdict(line(300)) is Verdict.UNKNOWN, "its records were not read"
    assert verdict(replace(line(300), bounds=None)) is Verdict.UNKNOWN
    assert verdict(replace(line(400), bounds=Bounds(300, 300))) is Verdict.UNKNOWN, "it lies beyond its own log"


# The origin of an offset


@pytest.mark.parametrize(
    ("line_ids", "here", "origin"),
    [
        (("a", "one"), ("a", "one"), Origin.SAME_LOG),
        ((None, "one"), ("a", "one"), Origin.SAME_LOG),
        (("a", None), ("a", "one"), Origin.UNKNOWN_LOG),
        (("a", "one"), ("a", "two"), Origin.OTHER_LOG),
        (("a", "one"), ("b", "one"), Origin.OTHER_LOG),
        (("a", None), ("b", None), Origin.OTHER_LOG),
        ((None, None), ("a", "one"), Origin.UNKNOWN_LOG),
        ((None, "one"), ("a", None), Origin.UNKNOWN_LOG),
    ],
)
def test_a_log_is_known_by_the_ids_of_cluster_and_topic(
    line_ids: tuple[str | None, str | None], here: tuple[str | None, str | None], origin: Origin
) -> None:
    of = replace(line(1), cluster_id=line_ids[0], topic_id=line_ids[1])
    assert origin_of(of, cluster_id=here[0], topic_id=here[1]) is origin


# Risks


def change(*flags: Flag, found: Verdict | None = None) -> OffsetChange:
    return OffsetChange(
        tp=TP,
        topic_id="two",
        old=None,
        new=Committed(1),
        bounds=Bounds(0, 9),
        notes=tuple(Note(flag, "why") for flag in flags),
        comparison=None if found is None else Comparison(verdict=found, reason="why"),
    )


@pytest.mark.parametrize(
    ("of", "origin", "verb", "risks"),
    [
        (change(found=Verdict.SAME), Origin.OTHER_LOG, Verb.COPY, ()),
        (change(found=Verdict.DIFFERENT), Origin.OTHER_LOG, Verb.COPY, (Risk.DIFFERENT_RECORDS,)),
        (change(found=Verdict.DIFFERENT), Origin.UNKNOWN_LOG, Verb.IMPORT, (Risk.DIFFERENT_RECORDS,)),
        (change(found=Verdict.UNKNOWN), Origin.OTHER_LOG, Verb.IMPORT, (Risk.UNCOMPARED_RECORDS,)),
        (change(found=Verdict.UNKNOWN), Origin.UNKNOWN_LOG, Verb.IMPORT, ()),
        (change(Flag.CLAMPED_TO_END, found=Verdict.SAME), Origin.OTHER_LOG, Verb.COPY, (Risk.CLAMPED_OFFSETS,)),
        (change(Flag.CLAMPED_TO_START), Origin.SAME_LOG, Verb.IMPORT, ()),
        (change(Flag.CLAMPED_TO_START), Origin.UNKNOWN_LOG, Verb.IMPORT, (Risk.CLAMPED_OFFSETS,)),
        (change(Flag.CLAMPED_TO_START), Origin.UNKNOWN_LOG, Verb.RESET, ()),
    ],
)
def test_risks_follow_from_what_was_found_and_where_the_offset_comes_from(
    of: OffsetChange, origin: Origin, verb: Verb, risks: tuple[Risk, ...]
) -> None:
    assert add_risks(of, line(1), origin, verb).risks == risks


@pytest.mark.parametrize(
    ("state", "origin", "verb", "is_risky"),
    [
        ("Stable", Origin.OTHER_LOG, Verb.COPY, True),
        ("Stable", Origin.SAME_LOG, Verb.COPY, True),
        ("PreparingRebalance", Origin.OTHER_LOG, Verb.IMPORT, True),
        ("Stable", Origin.SAME_LOG, Verb.IMPORT, False),
        ("Empty", Origin.OTHER_LOG, Verb.COPY, False),
        (None, Origin.OTHER_LOG, Verb.IMPORT, False),
    ],
)
def test_members_at_the_source_are_a_risk_unless_a_backup_goes_back(
    state: str | None, origin: Origin, verb: Verb, is_risky: bool
) -> None:
    risks = add_risks(change(), replace(line(1), group_state=state), origin, verb).risks
    assert risks == ((Risk.SOURCE_MEMBERS,) if is_risky else ())


def test_a_refusal_names_reasons_once_with_their_partitions_and_only_the_options_that_are_missing() -> None:
    risky = [
        add_risks(
            replace(change(Flag.CLAMPED_TO_END, found=Verdict.DIFFERENT), tp=TopicPartition("orders", number)),
            line(1),
            Origin.OTHER_LOG,
            Verb.COPY,
        )
        for number in range(3)
    ]
    group = GroupPlan(group="g", exists=True, changes=tuple(risky))

    assert why_withheld(group, [Risk.CLAMPED_OFFSETS]) == (
        "nothing of it is changed, since orders 0-2: why. If that is meant, say --accept-different-records"
    )
    assert why_withheld(group, [Risk.CLAMPED_OFFSETS, Risk.DIFFERENT_RECORDS]) is None
