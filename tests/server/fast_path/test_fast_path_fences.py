"""A check that is added to the ordinary path of a request is considered on the fast path, too.

kcoord/server/fast_path/fences.md says for each check what covers it there, and is compared with the source here.
"""

import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from tests.server.conftest import Serve
from tests.server.fast_path.fences import checks_of
from tests.server.fast_path.test_response_cache import SESSION, Asking, CacheHits
from tests.server.groups.test_serving_groups import join

_PAGE: Final = (Path(__file__).parents[3] / "kcoord/server/fast_path/fences.md").read_text()
_ROWS: Final = [tuple(line.strip("| ").split(" | ")) for line in _PAGE.splitlines() if line.startswith("| ")]
_COVERS: Final = {row[0] for row in _ROWS if len(row) == 2}
_FENCES: Final = [row for row in _ROWS if len(row) == 5 and row[0] != "request"]
REQUESTS: Final = ("heartbeat", "commit", "join", "sync")


@pytest.mark.parametrize("request_name", REQUESTS)
def test_each_check_of_the_ordinary_path_has_a_row_that_tells_what_covers_it(request_name: str) -> None:
    """If this fails: decide what covers the check on the fast path, then write its row into fences.md."""
    in_source = Counter((check.function, f"`{check.condition}`", check.error) for check in checks_of(request_name))
    in_table = Counter(row[1:4] for row in _FENCES if row[0] == request_name)
    not_considered, gone = in_source - in_table, in_table - in_source
    assert not not_considered, "not considered on the fast path"
    assert not gone, "no longer in the source"


def test_each_check_is_covered_by_something_that_is_explained() -> None:
    assert {row[4] for row in _FENCES} == _COVERS - {"covered by"}
    assert {row[0] for row in _FENCES} == set(REQUESTS)


def test_the_checks_that_are_known_to_matter_are_found_in_the_source() -> None:
    found = {(check.function, check.error) for name in REQUESTS for check in checks_of(name)}
    assert {
        ("classic.fencing.fence", "illegal_generation"),  # two modules away from the coordinator
        ("classic.sessions.heartbeat", "HEARTBEAT_ERRORS"),  # a table of errors
        ("classic.joining.join", "_reject_full"),  # refuses by calling a function that makes the whole answer
        ("classic.syncing._answer_or_park_sync", "_SUPERSEDED"),  # a reply that is a constant
        ("coordinator.commit", "policy_violation"),
        ("coordinator.join", "_refusal"),  # what the driver refuses
    } <= found


def test_the_folder_names_its_table() -> None:
    import kcoord.server.fast_path

    assert kcoord.server.fast_path.__doc__ is not None
    assert re.search(r"\bfences\.md\b", kcoord.server.fast_path.__doc__)


class Repeater(Asking):
    """A member that repeats itself, with errors and rebalances in between; its responses are noted as they come."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.responses: list[object] = []

    def do(self, what: str, number: int) -> None:
        match what:
            case "beat":
                self.responses.append(self.beat())
            case "commit":
                self.responses.append(self.commit(number))
            case "beat of another generation":
                self.responses.append(self.beat(generation_id=self.joined.generation_id - 1))
            case "commit to a topic that may be gone":
                self.responses.append(self.commit(number, ("t", "u")))
            case "rejoin":
                self.joined = join(self.client, "g", member_id=self.joined.member_id)
                self.responses.append((self.beat(), self.commit(number)))
                self.sync()
            case "leave":
                leaving = [{"member_id": self.joined.member_id, "group_instance_id": None}]
                self.client.ask(ApiKey.LEAVE_GROUP, 3, group_id="g", members=leaving)
                self.responses.append((self.beat(), self.commit(number)))
                self.joined = join(self.client, "g")
                self.sync()
            case "topic":
                self.change_topic()

    def sync(self) -> None:
        who = {"generation_id": self.joined.generation_id, "member_id": self.joined.member_id}
        synced = self.client.ask(ApiKey.SYNC_GROUP, 3, group_id="g", **who, assignments=[])
        self.responses.append((self.joined.generation_id, synced.error_code))

    def change_topic(self) -> None:
        """Deletes the topic u, or creates it again."""
        deleted = self.client.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["u"], timeout=SESSION).responses[0]
        if deleted.error_code is not ErrorCode.none:
            made = {"name": "u", "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
            self.client.ask(ApiKey.CREATE_TOPICS, 6, topics=[made], timeout=SESSION, validate_only=False)


_STEPS: Final = {
    "beat": 100,
    "commit": 100,
    "beat of another generation": 2,
    "commit to a topic that may be gone": 30,
    "rejoin": 2,
    "leave": 1,
    "topic": 3,
}


@pytest.mark.parametrize("seed", range(3))
def test_a_client_gets_the_same_responses_with_and_without_caching(serve: Serve, seed: int) -> None:
    responses, hits = [], []
    for allows_caching in (True, False):
        server = serve(topics=(("t", 3), ("u", 2)), **{"group.initial.rebalance.delay.ms": "0"})
        server.runtime.on_cache_hit = cache_hits = CacheHits()
        for dispatch in server.runtime._dispatches.values():
            dispatch.caching_allowed = allows_caching
        random = Random(seed)
        with server.client() as client:
            member = Repeater(client)
            for number, what in enumerate(random.choices(list(_STEPS), list(_STEPS.values()), k=600)):
                member.do(what, number)
            responses.append([*member.responses, member.fetched()])
        hits.append(Counter(cache_hits.keys()))
    assert responses[0] == responses[1]
    assert hits[0][ApiKey.HEARTBEAT] > 50
    assert hits[0][ApiKey.OFFSET_COMMIT] > 50
    assert not hits[1]
