"""Plans: the effect of their changes, their files, and whether they are still valid."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kcoord.admin.model import (
    Bounds,
    Committed,
    Group,
    GroupType,
    Member,
    Node,
    Refusal,
    Resource,
    Topic,
    TopicPartition,
)
from kcoord.admin.offsets.checking import StalePlan, differences
from kcoord.admin.offsets.cluster_state import CurrentGroup, CurrentGroups, CurrentLogs
from kcoord.admin.offsets.files.documents import BadDocument
from kcoord.admin.offsets.files.plan_files import plan_document, read_plan, write_plan
from kcoord.admin.offsets.plans import (
    Comparison,
    Effect,
    Flag,
    GroupPlan,
    Note,
    OffsetChange,
    Plan,
    RecordTimes,
    Risk,
    Verb,
    Verdict,
)
from kcoord.admin.record_marks import RecordMark
from kcoord.errors import ErrorCode

TP = TopicPartition("orders", 0)
LOG = Bounds(10, 100)


def change(old: int | None, new: int | None, bounds: Bounds | None = LOG) -> OffsetChange:
    return OffsetChange(
        tp=TP,
        topic_id="id-1",
        old=None if old is None else Committed(old, 2, "note\x00"),
        new=None if new is None else Committed(new),
        bounds=bounds,
    )


@pytest.mark.parametrize(
    ("old", "new", "difference", "effect", "records"),
    [
        (50, 30, -20, Effect.REPLAYS, 20),
        (30, 50, 20, Effect.SKIPS, 20),
        (50, 50, 0, Effect.NOTHING, 0),
        (5, 10, 5, Effect.NOTHING, 0),  # those records are deleted
        (5, 30, 25, Effect.SKIPS, 20),
        (120, 100, -20, Effect.NOTHING, 0),  # and those never existed
        (120, 90, -30, Effect.REPLAYS, 10),
        (None, 50, None, Effect.NOTHING, 0),
        (50, None, None, Effect.NOTHING, 0),
    ],
)
def test_only_records_that_the_log_has_are_replayed_or_skipped(
    old: int | None, new: int | None, difference: int | None, effect: Effect, records: int
) -> None:
    each = change(old, new)
    assert (each.difference, each.effect, each.records) == (difference, effect, records)


def test_without_a_log_no_records_are_claimed() -> None:
    assert change(50, 30, bounds=None).effect is Effect.NOTHING


PLAN = Plan(
    verb=Verb.RESET,
    target="to-offset 5",
    cluster_id="cluster",
    made_at=datetime(2026, 11, 16, 12, 0, 0, 123, tzinfo=UTC),
    groups=(
        GroupPlan(
            group="g\x1b[31m",
            exists=True,
            changes=(
                replace(
                    change(50, 10),
                    notes=(Note(Flag.CLAMPED_TO_START, "5 is before the start"),),
                    times=RecordTimes(1_700_000_000_000, 1_700_000_060_000),
                    comparison=Comparison(
                        verdict=Verdict.DIFFERENT,
                        reason="another time",
                        source=RecordMark(offset=5, timestamp=7, checksum="00000001"),
                        target=RecordMark(offset=10, is_append_time=True),
                    ),
                    risks=(Risk.DIFFERENT_RECORDS, Risk.CLAMPED_OFFSETS),
                ),
                replace(change(None, 0, bounds=None), tp=TopicPartition("gone", 3), topic_id=None),
                replace(change(50, None), tp=TopicPartition("orders", 1)),
            ),
        ),
        GroupPlan(group="new", exists=False, changes=(change(None, 10),)),
    ),
    accepted=(Risk.DIFFERENT_RECORDS, Risk.CLAMPED_OFFSETS),
)


def test_a_plan_is_the_same_after_it_was_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_plan(path, PLAN, overwrites=False)
    assert read_plan(path) == PLAN
    text = path.read_text()
    assert json.loads(text)["kcoord"] == "reset-plan/v1"
    assert all(char.isprintable() for line in text.splitlines() for char in line)
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]


def test_a_plan_is_not_written_over_another_unless_it_is_told_to(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="is there already: take another name, or say --force"):
        write_plan(path, PLAN, overwrites=False)
    assert path.read_text() == "mine"
    write_plan(path, PLAN, overwrites=True)
    assert read_plan(path) == PLAN
    assert len(list(tmp_path.iterdir())) == 1


def _without(document: dict[str, Any], *keys: str | int) -> dict[str, Any]:
    inner: Any = document
    for key in keys[:-1]:
        inner = inner[key]
    del inner[keys[-1]]
    return document


def _with(document: dict[str, Any], value: Any, *keys: str | int) -> dict[str, Any]:
    inner: Any = document
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    return document


_CHANGE = ("groups", 0, "partitions", 0)


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("kcoord",), "offsets-undo/v1", "this is no reset-plan of kcoord, but 'offsets-undo/v1'"),
        (("kcoord",), "reset-plan/v2", "its version, 'v2', is not known"),
        (("kcoord",), 7, "'kcoord' is not a text"),
        (("verb",), "fly", "verb 'fly' is none of reset, import, copy, delete, undo"),
        (("made_at",), "soon", "'made_at' is not a time"),
        (("groups",), {}, "'groups' is not a list"),
        (("groups",), [], "this plan changes nothing"),
        (("groups", 0), 7, r"groups\[0\] is not an object"),
        (("groups", 0, "group"), "", "the group has no name"),
        (("groups", 0, "exists"), "yes", "'exists' is not true or false"),
        (("groups", 1, "group"), "g\x1b[31m", r"group 'g\\x1b\[31m' is in it twice"),
        ((*_CHANGE, "partition"), -1, "'orders', -1 is not a topic and a partition"),
        ((*_CHANGE, "partition"), True, "'partition' is not a whole number"),
        ((*_CHANGE, "partition"), 1, "partition 'orders-1' is in it twice"),
        ((*_CHANGE, "new", "offset"), -7, "the offset -7 is negative"),
        ((*_CHANGE, "new", "offset"), 2**63, "'offset' is beyond 64 bits"),
        ((*_CHANGE, "new", "offset"), 1.5, "'offset' is not a whole number"),
        ((*_CHANGE, "new", "leader_epoch"), -2, "-2 is not a leader epoch"),
        ((*_CHANGE, "new", "metadata"), "\ud800", "half a character"),
        ((*_CHANGE, "flags", 0, "flag"), "odd", "flag 'odd' is none of"),
        ((*_CHANGE, "comparison", "verdict"), "fine", "verdict 'fine' is none of same, different, unknown"),
        ((*_CHANGE, "risks"), "none", "'risks' is not a list of texts"),
        ((*_CHANGE, "risks", 0), "rain", "risks 'rain' is none of different-records"),
        (("accepted",), ["clamped-offsets"], "orders-0: the risk 'different-records' was not accepted when the plan"),
    ],
)
def test_a_plan_that_was_tampered_with_is_refused_and_the_place_is_named(
    keys: tuple[str | int, ...], value: Any, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(_with({"kcoord": "reset-plan/v1", **plan_document(PLAN)}, value, *keys)))
    with pytest.raises(BadDocument, match=message) as refused:
        read_plan(path)
    assert str(refused.value).startswith(str(path))


def test_a_plan_of_before_records_were_compared_is_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan = replace(PLAN, groups=PLAN.groups[1:], accepted=())
    document = _without({"kcoord": "reset-plan/v1", **plan_document(plan)}, "accepted")
    for name in ("comparison", "risks"):
        _without(document, *_CHANGE, name)
    path.write_text(json.dumps(document))
    assert read_plan(path) == plan


def test_a_field_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    document = {"kcoord": "reset-plan/v1", **plan_document(PLAN)}
    path.write_text(json.dumps(_without(document, *_CHANGE, "new", "offset")))
    with pytest.raises(BadDocument, match=r"groups\[0\]: partitions\[0\]: 'new': 'offset' is missing"):
        read_plan(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "plan.json:1: this is not JSON"),
        (b'{\n"kcoord":\n', "plan.json:3: this is not JSON"),
        (b"[" * 100_000, "this is not JSON"),
        (b'{"kcoord": ' + b"9" * 5000 + b"}", "this is not JSON that can be read"),
        (b"[]", "plan.json is not an object"),
        (b"{}\n\xff", "plan.json:2: this is not a UTF-8 text"),
        (b"{}", "this is no reset-plan of kcoord"),
    ],
)
def test_what_is_no_plan_at_all_is_one_clear_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(BadDocument, match=message):
        read_plan(path)


# Stale plans

HELD = Plan(
    verb=Verb.RESET,
    target="to-offset 30",
    cluster_id="cluster",
    made_at=PLAN.made_at,
    groups=(GroupPlan(group="g", exists=True, changes=(change(50, 30),)),),
)
NODE = Node(id=1, host="h", port=9092)
EMPTY = Group(
    name="g", type=GroupType.CLASSIC, state="Empty", protocol_type="", protocol="", coordinator=NODE, members=()
)
MEMBER = Member(member_id="m", instance_id=None, client_id="c", host="/h", assignment=())
COMMITTED = Committed(50, 2, "note\x00")
TOPIC = Topic(name="orders", id="id-1", is_internal=False, leaders={0: 1})


def found(
    plan: Plan = HELD,
    *,
    cluster_id: str = "cluster",
    group: Group | None = EMPTY,
    committed: Committed | None = COMMITTED,
    topic: Topic | None = TOPIC,
    bounds: Bounds | None = LOG,
) -> tuple[str, ...]:
    now = CurrentGroup(name="g", group=group, committed={} if committed is None else {TP: committed})
    return differences(
        plan,
        cluster_id=cluster_id,
        groups=CurrentGroups(found={"g": now}, refused=()),
        logs=CurrentLogs(
            topics={} if topic is None else {"orders": topic}, bounds={} if bounds is None else {TP: bounds}
        ),
    )


def test_a_plan_holds_as_long_as_nothing_has_changed() -> None:
    assert found() == ()
    assert found(bounds=Bounds(30, 500)) == ()


def test_another_cluster_is_the_only_difference_that_counts() -> None:
    assert found(cluster_id="other", group=None, committed=None) == (
        "the plan is for the cluster 'cluster', and this is 'other'",
    )


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            "Stable",
            "group 'g': it is Stable and has 1 member: stop its members first, or they overwrite what is committed",
        ),
        ("PreparingRebalance", "group 'g': it is PreparingRebalance and has 1 member"),
        ("Assigning", "group 'g': it is Assigning and has 1 member"),
    ],
)
def test_a_group_with_members_is_a_difference(state: str, message: str) -> None:
    (line,) = found(group=replace(EMPTY, state=state, members=(MEMBER,)))
    assert line.startswith(message)


@pytest.mark.parametrize("kind", [GroupType.SHARE, GroupType.STREAMS])
def test_share_and_streams_groups_are_refused_in_words(kind: GroupType) -> None:
    (line,) = found(group=replace(EMPTY, type=kind))
    assert f"it is a {kind} group" in line
    assert f"kafka-{kind}-groups" in line


@pytest.mark.parametrize("state", ["Empty", "Dead"])
@pytest.mark.parametrize("kind", [GroupType.CLASSIC, GroupType.CONSUMER, GroupType.UNKNOWN])
def test_a_group_without_members_is_none(state: str, kind: GroupType) -> None:
    assert found(group=replace(EMPTY, state=state, type=kind)) == ()


@pytest.mark.parametrize(
    ("committed", "message"),
    [
        (None, "now there is nothing committed"),
        (Committed(51, 2, "note\x00"), "now there is offset 51 of leader epoch 2 with the metadata 'note\\x00'"),
        (Committed(50, 3, "note\x00"), "now there is offset 50 of leader epoch 3"),
        (Committed(50, 2, ""), "now there is offset 50 of leader epoch 2"),
    ],
)
def test_an_offset_that_was_committed_since_is_a_difference(committed: Committed | None, message: str) -> None:
    (line,) = found(committed=committed)
    assert line.startswith("group 'g', orders-0: the plan found offset 50 of leader epoch 2")
    assert message in line


def test_a_topic_that_is_gone_or_was_made_anew_is_a_difference() -> None:
    assert found(topic=None) == ("group 'g', orders-0: the topic does not exist",)
    (line,) = found(topic=replace(TOPIC, id="id-2"))
    assert line.endswith("the topic was made anew: its id was id-1 and is id-2")


def test_an_offset_that_the_log_has_no_longer_is_a_difference() -> None:
    (line,) = found(bounds=Bounds(31, 100))
    assert line.endswith("30 is no longer in the log, which is from 31 to 100")
    (line,) = found(bounds=None)
    assert line.endswith("the log cannot be asked where it begins and ends")


def test_an_offset_that_was_out_of_range_when_it_was_planned_may_be_so_still() -> None:
    outside = replace(HELD, groups=(GroupPlan(group="g", exists=True, changes=(change(50, 5),)),))
    assert found(outside) == ()


def test_a_deletion_needs_no_log() -> None:
    deletion = replace(HELD, groups=(GroupPlan(group="g", exists=True, changes=(change(50, None),)),))
    assert found(deletion, topic=None, bounds=None) == ()


def test_a_group_that_cannot_be_read_is_a_difference() -> None:
    refused = (Refusal(kind=Resource.GROUP, name="g", error=ErrorCode.group_authorization_failed),)
    groups = CurrentGroups(found={}, refused=refused)
    (line,) = differences(HELD, cluster_id="cluster", groups=groups, logs=CurrentLogs(topics={}, bounds={}))
    assert line == "group 'g' cannot be read: GROUP_AUTHORIZATION_FAILED"


def test_the_error_has_the_first_difference_and_counts_the_others() -> None:
    error = StalePlan(("one", "two", "three"))
    assert str(error) == "nothing was changed, because the plan no longer holds: one (and 2 more: see above)"
    assert str(StalePlan(("one",))).endswith("no longer holds: one")
