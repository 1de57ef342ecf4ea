"""Committed offsets survive `kill -9` and a restart, whatever was done to `__consumer_offsets` before."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.storage.kraft_metadata import FOLDER
from kcoord.storage.log_dir import read_topic_id
from tests.durability.support.record_writers import TOPIC as CANARY
from tests.durability.support.serving import Kind, Served
from tests.storage.test_kraft_metadata import batch, config, topic
from tests.support.hostile.batches import good_batch
from tests.support.hostile.scene import wait_until

NAME: Final = "__consumer_offsets"
EARLIEST = -2
SET, DELETE, APPEND, SUBTRACT = range(4)
SOON: Final = timedelta(seconds=10)
LOADING: Final = (ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available)
EAGER: Final = {"log.retention.check.interval.ms": "50", "log.retention.ms": "1", "log.cleanup.policy": "delete"}
"""Settings that let records expire as soon as possible."""

Act = Callable[[Client], ErrorCode]


def alter(*changes: tuple[str, int, str | None]) -> Act:
    configs = [{"name": name, "config_operation": operation, "value": value} for name, operation, value in changes]
    resource = {"resource_type": 2, "resource_name": NAME, "configs": configs}

    def ask(client: Client) -> ErrorCode:
        error: ErrorCode = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource]).responses[0].error_code
        return error

    return ask


def create(**configs: str) -> Act:
    named = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
    wanted = {"name": NAME, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": named}

    def ask(client: Client) -> ErrorCode:
        answer = client.ask(ApiKey.CREATE_TOPICS, 5, topics=[wanted], timeout=SOON, validate_only=False)
        error: ErrorCode = answer.topics[0].error_code
        return error

    return ask


def ask_for_metadata(client: Client) -> ErrorCode:
    for _ in range(2):  # The first request creates it, and the second describes it.
        answer = client.ask(ApiKey.METADATA, 9, topics=[{"name": NAME}], allow_auto_topic_creation=True)
    error: ErrorCode = answer.topics[0].error_code
    return error


def delete_records(client: Client) -> ErrorCode:
    lines = [{"partition_index": index, "offset": -1} for index in range(50)]
    answer = client.ask(ApiKey.DELETE_RECORDS, 2, topics=[{"name": NAME, "partitions": lines}], timeout=SOON)
    errors: set[ErrorCode] = {line.error_code for line in answer.topics[0].partitions}
    return errors.pop() if len(errors) == 1 else ErrorCode.unknown_server_error


BEFORE: Final[dict[str, tuple[Act, ErrorCode]]] = {
    "made to be deleted": (create(cleanup_policy="delete", retention_ms="1"), ErrorCode.invalid_config),
    "made with both policies": (create(cleanup_policy="compact,delete"), ErrorCode.invalid_config),
    "made with no policy": (create(cleanup_policy=""), ErrorCode.invalid_config),
    "made without settings": (create(), ErrorCode.none),
    "made with a retention": (create(retention_ms="1", retention_bytes="0"), ErrorCode.none),
    "made by asking for it": (ask_for_metadata, ErrorCode.none),
}
AFTER: Final[dict[str, tuple[Act, ErrorCode]]] = {
    "delete": (alter(("cleanup.policy", SET, "delete"), ("retention.ms", SET, "1")), ErrorCode.invalid_config),
    "both": (alter(("cleanup.policy", SET, "compact, delete")), ErrorCode.invalid_config),
    "neither": (alter(("cleanup.policy", SET, "")), ErrorCode.invalid_config),
    "delete added": (alter(("cleanup.policy", APPEND, "delete")), ErrorCode.invalid_config),
    "compact taken away": (alter(("cleanup.policy", SUBTRACT, "compact")), ErrorCode.invalid_config),
    "policy as the server's": (alter(("cleanup.policy", DELETE, None)), ErrorCode.invalid_config),
    "compact again": (alter(("cleanup.policy", SET, "compact")), ErrorCode.none),
    "harmless ones": (
        alter(
            ("retention.ms", SET, "1"),
            ("retention.bytes", SET, "0"),
            ("segment.bytes", SET, "1048576"),
            ("segment.ms", SET, "1"),
            ("max.message.bytes", SET, "0"),
            ("delete.retention.ms", SET, "0"),
            ("message.timestamp.type", SET, "LogAppendTime"),
            ("min.insync.replicas", SET, "3"),
        ),
        ErrorCode.none,
    ),
    "records deleted": (delete_records, ErrorCode.invalid_topic_exception),
}


def commit(client: Client, offset: int, group_id: str = "g") -> None:
    lines = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}]
    answer = client.ask(ApiKey.OFFSET_COMMIT, 8, group_id=group_id, topics=[{"name": CANARY, "partitions": lines}])
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


def committed(client: Client, group_id: str = "g") -> list[int]:
    """Returns what the group has committed, once it is loaded."""
    answers: list[Any] = []

    def is_answered() -> bool:
        answers.append(client.ask(ApiKey.OFFSET_FETCH, 7, group_id=group_id, topics=None))
        return answers[-1].error_code not in LOADING

    wait_until(is_answered, what="groups are read")
    return [line.committed_offset for each in answers[-1].topics for line in each.partitions]


def let_retention_pass(client: Client) -> None:
    """Waits until a record of another topic has expired that was produced after all earlier requests."""
    lines = [{"name": CANARY, "partition_data": [{"index": 0, "records": good_batch()}]}]
    [answer] = client.ask(ApiKey.PRODUCE, 9, acks=-1, timeout=SOON, topic_data=lines).responses
    offset: int = answer.partition_responses[0].base_offset
    asked = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": EARLIEST}]

    def is_gone() -> bool:
        [answer] = client.ask(
            ApiKey.LIST_OFFSETS, 5, replica_id=-1, topics=[{"name": CANARY, "partitions": asked}]
        ).topics
        earliest: int = answer.partitions[0].offset
        return earliest > offset

    wait_until(is_gone, what="retention has passed over all logs")


def assert_offsets_survive(folder: Path, offset: int) -> None:
    """Starts the server twice, and lets retention run between the starts."""
    for _ in range(2):
        with Served(folder, Kind(settings=EAGER)) as served, served.client() as client:
            assert committed(client) == [offset]
            let_retention_pass(client)
            served.kill()


@pytest.mark.parametrize("door", BEFORE)
def test_offsets_survive_however_their_topic_was_made(tmp_path: Path, door: str) -> None:
    act, expected = BEFORE[door]
    with Served(tmp_path / "data", Kind(settings=EAGER)) as served, served.client() as client:
        assert act(client) is expected
        commit(client, 41)
        let_retention_pass(client)
        served.kill()
    assert_offsets_survive(tmp_path / "data", 41)


@pytest.mark.parametrize("door", AFTER)
def test_offsets_survive_all_settings_that_their_topic_takes(tmp_path: Path, door: str) -> None:
    act, expected = AFTER[door]
    with Served(tmp_path / "data", Kind(settings=EAGER)) as served, served.client() as client:
        commit(client, 41)
        assert act(client) is expected
        commit(client, 42)
        let_retention_pass(client)
        served.kill()
    assert_offsets_survive(tmp_path / "data", 42)


@pytest.mark.parametrize("configs", [{"cleanup.policy": "delete", "retention.ms": "1"}, {"cleanup.policy": ""}, {}])
def test_offsets_survive_settings_that_the_data_folder_has_for_their_topic(
    tmp_path: Path, configs: dict[str, str]
) -> None:
    with Served(tmp_path / "data", Kind(settings=EAGER)) as served, served.client() as client:
        commit(client, 43)
        served.kill()
    _write_settings(tmp_path / "data" / "kcoord-topics.jsonl", configs)
    with Served(tmp_path / "data", Kind(settings=EAGER)) as served, served.client() as client:
        let_retention_pass(client)
        [warning] = [line for line in served.log().splitlines() if NAME in line and "WARNING" in line]
        assert "cleanup.policy" in warning
        assert "would be lost" in warning
        served.kill()
    assert_offsets_survive(tmp_path / "data", 43)
    with Served(tmp_path / "data", Kind(settings=EAGER)) as served:
        assert "would be lost" not in served.log(), "it is mended, and said, once"


def test_offsets_survive_fewer_partitions_in_the_data_folders_file_than_there_are_folders(tmp_path: Path) -> None:
    """Groups are found by the number of partitions: with another one they would begin again without their offsets."""
    folder, groups = tmp_path / "data", [f"g{number}" for number in range(8)]
    with Served(folder, Kind(settings={**EAGER, "offsets.topic.num.partitions": "3"})) as served:
        with served.client() as client:
            for group in groups:
                commit(client, 45, group)
        served.kill()
    _change_topic(folder / "kcoord-topics.jsonl", replicas=[[1]])
    for _ in range(2):
        with Served(folder, Kind(settings=EAGER)) as served:
            with served.client() as client:
                assert [committed(client, group) for group in groups] == [[45]] * len(groups)
            is_reported = "topic=__consumer_offsets partitions=3" in served.log()
            served.kill()
    assert not is_reported, "it is mended, and logged, once"


def test_offsets_survive_settings_that_a_broker_had_for_their_topic(tmp_path: Path) -> None:
    """The folder becomes a broker's: kcoord's file of topics is gone, and the controllers' log is there."""
    folder = tmp_path / "data"
    with Served(folder, Kind(settings=EAGER)) as served, served.client() as client:
        commit(client, 44)
        served.kill()
    (folder / "kcoord-topics.jsonl").unlink()
    topics = [topic(name, read_topic_id(folder / f"{name}-0") or UUID(int=0)) for name in (NAME, CANARY)]
    metadata_log = batch(*topics, config(NAME, "cleanup.policy", "delete"), config(NAME, "retention.ms", "1"))
    (folder / FOLDER).mkdir()
    (folder / FOLDER / "00000000000000000000.log").write_bytes(metadata_log)
    with Served(folder, Kind(settings=EAGER)) as served, served.client() as client:
        let_retention_pass(client)
        assert len([line for line in served.log().splitlines() if NAME in line and "would be lost" in line]) == 1
        served.kill()
    assert_offsets_survive(folder, 44)


def _write_settings(path: Path, configs: dict[str, str]) -> None:
    _change_topic(path, configs=configs)


def _change_topic(path: Path, **changes: Any) -> None:
    facts = [json.loads(line) for line in path.read_text().splitlines()]
    for fact in facts:
        if fact.get("topic") == NAME:
            fact.update(changes)
    path.write_text("".join(json.dumps(fact) + "\n" for fact in facts))
