"""Answers wait until their records are committed (D4), and decisions whose records are lost are undone (D5)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.proxy.local import kafka_log
from kcoord.server import cluster_runtime, maintenance
from tests.proxy.local.desk import Desk
from tests.support.guest import (
    Guest,
    HungUp,
    SentRequest,
    commit_errors,
    commit_fields,
    join_fields,
    member_fields,
    offsets_of,
    sync_fields,
)


def played(scenario: Callable[[Desk], Awaitable[None]]) -> None:
    async def play() -> None:
        async with Desk() as desk:
            await scenario(desk)

    asyncio.run(play())


def commit(guest: Guest, offset: int) -> SentRequest:
    return guest.begin(ApiKey.OFFSET_COMMIT, 8, **commit_fields("payments", "orders", {0: offset}))


async def answer_once_committed(desk: Desk, guest: Guest, asked: SentRequest) -> Any:
    """Returns the answer, while the journal commits everything."""
    while not asked.answered.done():
        await desk.turn()
        desk.writer.commit_all()
    return await guest.reply_to(asked)


async def joined(desk: Desk, guest: Guest) -> str:
    """Joins as the only member, which has its assignment then; returns its id."""
    first = await answer_once_committed(desk, guest, guest.begin(ApiKey.JOIN_GROUP, 4, **join_fields("payments")))
    member_id: str = first.member_id
    second = await answer_once_committed(
        desk, guest, guest.begin(ApiKey.JOIN_GROUP, 4, **join_fields("payments", member_id))
    )
    synced = await answer_once_committed(
        desk, guest, guest.begin(ApiKey.SYNC_GROUP, 3, **sync_fields("payments", member_id, second.generation_id))
    )
    assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"mine")
    return member_id


def heartbeat(guest: Guest, member_id: str) -> SentRequest:
    return guest.begin(ApiKey.HEARTBEAT, 3, **member_fields("payments", member_id, 1))


def test_a_commit_is_answered_when_it_is_kept_and_not_before() -> None:
    async def scenario(desk: Desk) -> None:
        guest = Guest(desk)
        asked = commit(guest, 17)
        await desk.turn()
        assert not asked.answered.done()

        desk.writer.commit_all()
        await desk.turn()

        assert commit_errors(await guest.reply_to(asked)) == {ErrorCode.none}
        assert await offsets_of(guest, "payments") == {("orders", 0): (17, 5, "")}

    played(scenario)


def test_who_reads_what_is_not_kept_yet_waits_for_it() -> None:
    async def scenario(desk: Desk) -> None:
        writer, reader = Guest(desk), Guest(desk)
        committed = commit(writer, 17)
        await desk.turn()
        reading = asyncio.ensure_future(offsets_of(reader, "payments"))
        await desk.turn()
        assert not reading.done()

        desk.writer.commit_all()

        assert await reading == {("orders", 0): (17, 5, "")}
        assert committed.answered.done()

    played(scenario)


def test_what_was_decided_while_a_round_was_written_is_the_next_round() -> None:
    async def scenario(desk: Desk) -> None:
        guests = [Guest(desk) for _ in range(3)]
        first = commit(guests[0], 1)
        await desk.turn()
        others = [commit(guest, 2) for guest in guests[1:]]
        await desk.turn()

        assert [len(each.entries) for each in desk.writer.rounds] == [1, 2]
        desk.writer.commit_all()
        await desk.turn()
        assert all(each.answered.done() for each in (first, *others))

    played(scenario)


def test_a_commit_that_is_lost_is_refused_so_that_the_client_tries_again() -> None:
    async def scenario(desk: Desk) -> None:
        guest = Guest(desk)
        await answer_once_committed(desk, guest, commit(guest, 17))
        lost = commit(guest, 99)
        await desk.turn()

        desk.writer.lose()

        assert commit_errors(await guest.reply_to(lost)) == {ErrorCode.coordinator_load_in_progress}
        again = await guest.reply_to(commit(guest, 99))
        assert commit_errors(again) == {ErrorCode.coordinator_load_in_progress}
        desk.writer.load()
        await desk.until_read()
        assert await offsets_of(guest, "payments") == {("orders", 0): (17, 5, "")}, "what was lost was never so"
        assert commit_errors(await answer_once_committed(desk, guest, commit(guest, 99))) == {ErrorCode.none}

    played(scenario)


def test_a_commit_whose_fate_was_unknown_counts_if_the_journal_has_it() -> None:
    async def scenario(desk: Desk) -> None:
        guest = Guest(desk)
        asked = commit(guest, 17)
        await desk.turn()
        (entry,) = desk.writer.rounds[0].entries
        desk.writer.lose()
        assert commit_errors(await guest.reply_to(asked)) == {ErrorCode.coordinator_load_in_progress}

        partition, key, value = entry
        assert value is not None
        desk.writer.partitions[partition][key] = value
        desk.writer.load()
        await desk.until_read()

        assert await offsets_of(guest, "payments") == {("orders", 0): (17, 5, "")}

    played(scenario)


def test_members_go_on_after_a_loss_as_if_nothing_had_been() -> None:
    async def scenario(desk: Desk) -> None:
        guest = Guest(desk)
        member_id = await joined(desk, guest)

        desk.writer.lose()
        await desk.turn()
        meanwhile = await guest.reply_to(heartbeat(guest, member_id))
        desk.writer.load()
        await desk.until_read()
        afterwards = await guest.reply_to(heartbeat(guest, member_id))

        assert (meanwhile.error_code, afterwards.error_code) == (ErrorCode.none, ErrorCode.none)

    played(scenario)


def test_who_waits_for_others_when_the_journal_is_lost_is_told_to_look_for_the_coordinator_again() -> None:
    async def scenario(desk: Desk) -> None:
        first, second = Guest(desk), Guest(desk, peer="10.0.0.8:40000")
        await joined(desk, first)
        given = await answer_once_committed(desk, second, second.begin(ApiKey.JOIN_GROUP, 4, **join_fields("payments")))
        parked = second.begin(ApiKey.JOIN_GROUP, 4, **join_fields("payments", given.member_id))
        await desk.turn()
        desk.writer.commit_all()
        await desk.turn()
        assert not parked.answered.done(), "it waits for the first member to join again"

        desk.writer.lose()

        assert (await second.reply_to(parked)).error_code is ErrorCode.not_coordinator

    played(scenario)


def test_one_that_is_fenced_coordinates_no_more() -> None:
    async def scenario(desk: Desk) -> None:
        guest = Guest(desk)
        member_id = await joined(desk, guest)
        as_member = {"generation_id_or_member_epoch": 1, "member_id": member_id}
        asked = guest.begin(ApiKey.OFFSET_COMMIT, 8, **commit_fields("payments", "orders", {0: 17}, **as_member))
        await desk.turn()

        desk.writer.fence()

        assert commit_errors(await guest.reply_to(asked)) == {ErrorCode.not_coordinator}
        assert (await guest.reply_to(heartbeat(guest, member_id))).error_code is ErrorCode.not_coordinator
        assert desk.journal_events.is_fenced
        assert not desk.runtime.coordinator.is_loading

    played(scenario)


def test_a_heartbeat_waits_for_a_proof_that_nobody_else_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(desk: Desk) -> None:
        guest = Guest(desk)
        member_id = await joined(desk, guest)
        for _ in range(40):  # however many were answered before
            assert (await guest.reply_to(heartbeat(guest, member_id))).error_code is ErrorCode.none
        monkeypatch.setattr(kafka_log, "_TRUSTED", -1.0)
        asked = heartbeat(guest, member_id)
        await desk.turn()
        assert not asked.answered.done()

        desk.writer.commit_all()
        await desk.turn()

        assert (await guest.reply_to(asked)).error_code is ErrorCode.none

    played(scenario)


def test_what_was_decided_between_a_loss_and_its_news_is_not_acknowledged() -> None:
    async def scenario(desk: Desk) -> None:
        guest = Guest(desk)
        desk.writer.lose()  # the loop has not processed the report yet
        text = "x" * 4000
        lines = [
            {"partition_index": index, "committed_offset": 9, "committed_leader_epoch": 5, "committed_metadata": text}
            for index in range(3)
        ]
        large = {**commit_fields("payments", "orders", {}), "topics": [{"name": "orders", "partitions": lines}]}
        asked = guest.begin(ApiKey.OFFSET_COMMIT, 8, **large)  # a large request is decided at once

        with pytest.raises(HungUp):
            await guest.reply_to(asked)

        desk.writer.load()
        await desk.until_read()
        assert await offsets_of(Guest(desk), "payments") == {}

    played(scenario)


def test_a_client_that_has_gone_is_not_answered_and_its_commit_counts() -> None:
    async def scenario(desk: Desk) -> None:
        guest = Guest(desk)
        asked = commit(guest, 17)
        await desk.turn()

        guest.leave()
        desk.writer.commit_all()
        await desk.turn()

        assert not asked.answered.done()
        assert await offsets_of(Guest(desk), "payments") == {("orders", 0): (17, 5, "")}

    played(scenario)


def test_a_request_that_cannot_be_read_ends_the_connection_of_its_client_alone() -> None:
    async def scenario(desk: Desk) -> None:
        guest, other = Guest(desk), Guest(desk)
        waiting = commit(other, 17)
        asked = guest.begin(ApiKey.JOIN_GROUP, 4, **join_fields("payments"), truncated=5)

        with pytest.raises(HungUp):
            await guest.reply_to(asked)
        assert commit_errors(await answer_once_committed(desk, other, waiting)) == {ErrorCode.none}

    played(scenario)


def test_an_idle_connection_to_the_coordinator_ends_without_the_client_noticing() -> None:
    async def scenario(desk: Desk) -> None:
        guest = Guest(desk)
        await answer_once_committed(desk, guest, commit(guest, 17))
        (connection,) = desk.runtime.connections

        connection.close("idle")
        await desk.turn()

        assert (guest.reason, list(desk.runtime.connections)) == ("", [])
        assert commit_errors(await answer_once_committed(desk, guest, commit(guest, 18))) == {ErrorCode.none}

    played(scenario)


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads a lost journal again without a pause."""
    monkeypatch.setattr(cluster_runtime, "IDLE_INTERVAL", 0.0)
    monkeypatch.setattr(maintenance, "IDLE_INTERVAL", 0.0)


@pytest.mark.usefixtures("restless")
def test_groups_that_were_let_go_of_alone_are_found_again_as_they_were() -> None:
    async def scenario(desk: Desk) -> None:
        guest = Guest(desk)
        await answer_once_committed(desk, guest, commit(guest, 17))
        desk.break_next_append()

        with pytest.raises(HungUp):
            await guest.reply_to(commit(guest, 99))
        await desk.until_read()

        assert await offsets_of(Guest(desk), "payments") == {("orders", 0): (17, 5, "")}

    played(scenario)


def test_what_was_proven_before_a_long_reading_is_proven_again_before_an_answer() -> None:
    async def scenario(desk: Desk) -> None:
        guest = Guest(desk)
        member_id = await joined(desk, guest)
        desk.writer.lose()
        desk.writer.load(proven_ago=60.0)
        await desk.until_read()

        asked = heartbeat(guest, member_id)
        await desk.turn()
        assert not asked.answered.done()
        desk.writer.commit_all()

        assert (await guest.reply_to(asked)).error_code is ErrorCode.none

    played(scenario)
