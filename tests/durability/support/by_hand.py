"""A few requests, one at a time: members of the group "g"; offsets and records of partition 0; topics."""

import time
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, Final

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client, Disconnected
from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import split_batches
from kcoord.protocol.records.record import Record, read_records, write_batch
from tests.durability.support import record_writers
from tests.durability.support.group_writers import TOPIC
from tests.durability.support.serving import Served

_SESSION: Final = timedelta(minutes=20)
_NOT_YET: Final = (ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available)


class Member:
    def __init__(self, client: Client) -> None:
        self.member_id = ""
        self.generation = 0
        self._client = client

    def send_join(self) -> None:
        self._client.send(
            ApiKey.JOIN_GROUP,
            3,
            group_id="g",
            session_timeout=_SESSION,
            rebalance_timeout=_SESSION,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": str(self.generation).encode()}],
        )

    def joined(self) -> str:
        """Receives the answer to a join, and returns the leader of the new generation."""
        answer = self._client.receive(ApiKey.JOIN_GROUP, 3)
        assert answer.error_code is ErrorCode.none
        self.member_id, self.generation = answer.member_id, answer.generation_id
        leader: str = answer.leader
        return leader

    def wait_for_rebalance(self) -> None:
        error = ErrorCode.none
        while error is not ErrorCode.rebalance_in_progress:
            error = self._client.ask(ApiKey.HEARTBEAT, 3, **self._as_member()).error_code

    def send_sync(self, plan: dict[str, bytes]) -> None:
        assignments = [{"member_id": member_id, "assignment": given} for member_id, given in plan.items()]
        self._client.send(ApiKey.SYNC_GROUP, 3, **self._as_member(), assignments=assignments)

    def assignment(self) -> bytes | None:
        """Receives the assignment; None if the sync is refused, or the server hung up."""
        try:
            answer = self._client.receive(ApiKey.SYNC_GROUP, 3)
        except Disconnected:
            return None
        return answer.assignment if answer.error_code is ErrorCode.none else None

    def _as_member(self) -> dict[str, Any]:
        return {"group_id": "g", "generation_id": self.generation, "member_id": self.member_id}


class ManualClient:
    """A client for single requests: `with ManualClient(served) as manual:`"""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._clients = ExitStack()
        self._client: Client | None = None

    def __enter__(self) -> "ManualClient":
        return self

    def __exit__(self, *error: object) -> None:
        self._clients.close()

    def joined(self, count: int) -> list[Member]:
        """Lets so many members join one generation, and returns them, the leader first."""
        members: list[Member] = []
        leader_id = ""
        for _ in range(count):
            members.append(Member(self._new_client()))
            members[-1].send_join()
            for member in members[:-1]:
                member.wait_for_rebalance()
                member.send_join()
            [leader_id] = {member.joined() for member in members}
        return sorted(members, key=lambda member: member.member_id != leader_id)

    def state(self) -> str:
        state: str = self._new_client().ask(ApiKey.DESCRIBE_GROUPS, 5, groups=["g"]).groups[0].group_state
        return state

    def commit(self, group_id: str, offset: int) -> ErrorCode:
        if self._client is None:
            self._client = self._new_client()
        line = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        topics = [{"name": TOPIC, "partitions": [line]}]
        try:
            answer = self._client.ask(ApiKey.OFFSET_COMMIT, 8, group_id=group_id, topics=topics)
        except Disconnected:
            self._client = None
            return ErrorCode.network_exception
        error: ErrorCode = answer.topics[0].partitions[0].error_code
        return error

    def committed(self, group_id: str) -> list[int]:
        """Returns the committed offsets, once the group is loaded."""
        client = self._new_client()
        while True:
            answer = client.ask(ApiKey.OFFSET_FETCH, 7, group_id=group_id, topics=None)
            if answer.error_code not in _NOT_YET:
                assert answer.error_code is ErrorCode.none
                return [line.committed_offset for topic in answer.topics for line in topic.partitions]

    def create(self, topic: str, *, partitions: int = 1) -> ErrorCode:
        asked = {"name": topic, "num_partitions": partitions, "replication_factor": 1}
        error: ErrorCode = self._new_client().ask(ApiKey.CREATE_TOPICS, 7, topics=[asked]).topics[0].error_code
        return error

    def topics(self) -> list[str]:
        metadata = self._new_client().ask(ApiKey.METADATA, 9, topics=None, allow_auto_topic_creation=False)
        return [topic.name for topic in metadata.topics]

    def produce(self, value: bytes) -> ErrorCode:
        """Produces one record to partition 0."""
        batch = write_batch([Record(timestamp=int(time.time() * 1000), value=value)])
        content = [{"index": 0, "records": batch}]
        topic = {"name": record_writers.TOPIC, "partition_data": content}
        answer = self._new_client().ask(ApiKey.PRODUCE, 9, acks=-1, topic_data=[topic])
        error: ErrorCode = answer.responses[0].partition_responses[0].error_code
        return error

    def produced(self) -> list[bytes | None]:
        asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        topics = [{"topic": record_writers.TOPIC, "partitions": [asked]}]
        [line] = self._new_client().ask(ApiKey.FETCH, 11, topics=topics).responses[0].partitions
        assert line.error_code is ErrorCode.none, line.error_code.name
        return [record.value for batch in split_batches(line.records) for record in read_records(batch)]

    def _new_client(self) -> Client:
        return self._clients.enter_context(self._served.client())
