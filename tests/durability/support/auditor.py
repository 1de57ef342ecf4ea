"""Reads everything in the ledger from a server, and reports what is missing, older, or was never requested."""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import split_batches
from tests.durability.support.ledger import Committed, Generation, GroupPage, Ledger, TopicShape
from tests.durability.support.writers import (
    PATIENCE,
    TOPIC_RESOURCE,
)

_FETCH_BYTES: Final = 1 << 24


def audit(client: Client, ledger: Ledger) -> list[str]:
    """Returns what is wrong, one line for each. From then on the ledger has what was found."""
    return [*_audit_topics(client, ledger), *_audit_logs(client, ledger), *_audit_groups(client, ledger)]


def _audit_topics(client: Client, ledger: Ledger) -> Iterator[str]:
    metadata = client.ask(ApiKey.METADATA, 9, topics=None, allow_auto_topic_creation=False)
    partitions = {topic.name: len(topic.partitions) for topic in metadata.topics}
    asked = [name for name in ledger.topics if name in partitions]
    resources = [{"resource_type": TOPIC_RESOURCE, "resource_name": name} for name in asked]
    configs = client.ask(
        ApiKey.DESCRIBE_CONFIGS, 4, resources=[{**each, "configuration_keys": ["retention.ms"]} for each in resources]
    )
    retention = {each.resource_name: int(each.configs[0].value) for each in configs.results}
    for name, register in ledger.topics.items():
        found = TopicShape(partitions[name], retention[name]) if name in partitions else None
        if found not in register.possible:
            yield f"topic {name}: is {found}, and may be {register.possible}"
        register.resolve(found)
        if found is None:
            ledger.forget_logs(name)


def _audit_logs(client: Client, ledger: Ledger) -> Iterator[str]:
    for (topic, partition), page in ledger.logs.items():
        try:
            found = _batches(client, topic, partition)
        except _Unread as error:
            yield f"log {topic}-{partition}: {error}"
            continue
        for wrong in page.resolve(found):
            yield f"log {topic}-{partition}: {wrong}"


class _Unread(Exception):
    """A log that cannot be read."""


def _batches(client: Client, topic: str, partition: int) -> list[tuple[int, bytes]]:
    """Returns the offset and the bytes of each batch, from the log's beginning to its end."""
    found: list[tuple[int, bytes]] = []
    offset = 0
    while True:
        asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": _FETCH_BYTES}
        topics = [{"topic": topic, "partitions": [asked]}]
        answer = client.ask(ApiKey.FETCH, 11, max_wait=timedelta(0), topics=topics, max_bytes=_FETCH_BYTES)
        [line] = answer.responses[0].partitions
        if line.error_code is not ErrorCode.none:
            raise _Unread(f"cannot be read from {offset} on: {line.error_code.name}")
        if offset >= line.high_watermark:
            return found
        for batch in split_batches(line.records or b""):
            found.append((batch.header.base_offset, bytes(batch.data)))
            offset = batch.header.last_offset + 1


def _audit_groups(client: Client, ledger: Ledger) -> Iterator[str]:
    for group_id, page in ledger.groups.items():
        fetched = _when_loaded(client, ApiKey.OFFSET_FETCH, 7, group_id=group_id, topics=None)
        if fetched.error_code is not ErrorCode.none:
            yield f"group {group_id}: its offsets are not to be had: {fetched.error_code.name}"
            continue
        offsets = {
            (topic.name, line.partition_index): Committed(
                line.committed_offset, line.committed_leader_epoch, line.metadata
            )
            for topic in fetched.topics
            for line in topic.partitions
        }
        yield from (f"group {group_id}: {wrong}" for wrong in _audit_offsets(page, offsets))
        described = client.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=[group_id]).groups[0]
        yield from (f"group {group_id}: {wrong}" for wrong in _audit_members(client, page, described))


def _when_loaded(client: Client, api_key: int, version: int, **values: Any) -> Any:
    until = time.monotonic() + PATIENCE
    while True:
        answer = client.ask(api_key, version, **values)
        if answer.error_code is not ErrorCode.coordinator_load_in_progress or time.monotonic() > until:
            return answer
        time.sleep(0.01)


def _audit_offsets(page: GroupPage, offsets: dict[tuple[str, int], Committed]) -> Iterator[str]:
    for partition in offsets.keys() - page.offsets.keys():
        yield f"{partition}: {offsets[partition]} was committed by nobody"
    for partition, register in page.offsets.items():
        found = offsets.get(partition)
        if found not in register.possible:
            yield f"{partition}: is {found}, and may be {register.possible}"
        register.resolve(found)


def _audit_members(client: Client, page: GroupPage, described: Any) -> Iterator[str]:
    """Audits the members. A generation is the acknowledged one if it accepts a member's heartbeat."""
    state = described.group_state
    if state != "Dead" and page.is_deleted.possible == [True]:
        yield f"is {state}, although it was deleted"
    page.is_deleted.resolve(state == "Dead")
    found = frozenset((member.member_id, bytes(member.member_assignment)) for member in described.members)
    matching = [each for each in page.generation.possible if (each.assignments if each else frozenset()) == found]
    if not found:
        if not matching:
            yield f"is {state} without members, and may be {_format_generations(page.generation.possible)}"
        elif None not in matching and state != "Empty":
            yield f"is {state}, although all its members have left"
        page.generation.resolve(matching[-1] if matching else None)
        return
    for generation in matching:
        assert generation is not None
        member = {"member_id": generation.member_ids[0], "generation_id": generation.number}
        beat = client.ask(ApiKey.HEARTBEAT, 3, group_id=described.group_id, **member)
        if beat.error_code is ErrorCode.none and state == "Stable":
            page.generation.resolve(generation)
            return
    members = sorted(member_id for member_id, _ in found)
    yield f"is {state} with {members}, and may be {_format_generations(page.generation.possible)}"
    page.generation.resolve(None)


def _format_generations(generations: list[Generation | None]) -> list[str]:
    return [f"generation {each.number} of {each.member_ids}" if each else "no generation" for each in generations]
