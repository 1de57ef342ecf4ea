"""The part of the tour that is about groups: real members come, one is killed, the others take over."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from kcoord.testing.embedded import EmbeddedCluster
from kcoord.testing.step import Step, TourFailed
from kcoord.wire.client import Client
from kcoord.wire.consumer_protocol import read_assignment

_offset_fetch, _find_coordinator, _describe_groups, _delete_groups = 9, 10, 15, 42
_group = "tour"
_PATIENCE = 60.0


def group_steps(cluster: EmbeddedCluster, topic: str, partitions: int) -> Iterator[Step]:
    with ExitStack() as stack:
        members = [stack.enter_context(_member(cluster, topic)) for _ in range(3)]
        coordinator = stack.enter_context(_coordinator(cluster))
        yield _three_members(coordinator, topic)
        yield _one_is_killed(cluster, coordinator, topic, members[0])
        yield _committed(coordinator, topic, partitions)
        yield _all_leave(cluster, coordinator, members[1:])


def _three_members(coordinator: Client, topic: str) -> Step:
    group = _stable(coordinator, 3)
    return Step(
        title="A group of three real consumers, each a process",
        said=(
            "JoinGroup, SyncGroup, Heartbeat: the first to join made the plan, the coordinator handed it out.",
            f"DescribeGroups: {group.group_state}, protocol {group.protocol_data}.",
        ),
        rows=_owners(group, topic),
    )


def _one_is_killed(
    cluster: EmbeddedCluster, coordinator: Client, topic: str, member: "subprocess.Popen[bytes]"
) -> Step:
    member.kill()
    began = time.monotonic()
    group = _stable(coordinator, 2)
    told = [line.split(" INFO ", 1)[-1] for line in cluster.log().splitlines() if "expired" in line]
    return Step(
        title="One of them is killed: kill -9",
        said=(
            f"Its session of 2 s ran out, the others were told to join again and had its partitions after "
            f"{time.monotonic() - began:.1f} s. The log says why:",
            *(f"  {line}" for line in told[-2:]),
        ),
        rows=_owners(group, topic),
    )


def _committed(coordinator: Client, topic: str, partitions: int) -> Step:
    asked = {"group_id": _group, "topics": [{"name": topic, "partition_indexes": list(range(partitions))}]}

    def offsets() -> dict[int, int]:
        lines = coordinator.ask(_offset_fetch, 8, groups=[asked]).groups[0].topics[0].partitions
        return {line.partition_index: line.committed_offset for line in lines}

    _wait(lambda: all(offset >= 0 for offset in offsets().values()), "the members to commit every partition")
    rows = [(str(partition), str(offset)) for partition, offset in sorted(offsets().items())]
    return Step(
        title="What the group has committed",
        said=("OffsetFetch, of all partitions at once.",),
        rows=(("partition", "offset"), *rows),
    )


def _all_leave(cluster: EmbeddedCluster, coordinator: Client, members: "list[subprocess.Popen[bytes]]") -> Step:
    for member in members:
        assert member.stdin
        member.stdin.close()
    _wait(lambda: _described(coordinator).group_state == "Empty", "the members to leave")
    error = coordinator.ask(_delete_groups, 2, groups_names=[_group]).results[0].error_code
    if error:
        raise TourFailed(f"the empty group could not be deleted: {error.name}")
    told = [line.split(" INFO ", 1)[-1] for line in cluster.log().splitlines() if " left " in line or " empty " in line]
    return Step(
        title="The others leave, and the group is deleted",
        said=("LeaveGroup, then DeleteGroups of the empty group. The log:", *(f"  {line}" for line in told[-3:])),
    )


def _coordinator(cluster: EmbeddedCluster) -> Client:
    host, _, port = cluster.bootstrap.split(",")[0].rpartition(":")
    with Client(host, int(port), client_id="tour") as client:
        found = client.ask(_find_coordinator, 4, key_type=0, coordinator_keys=[_group]).coordinators[0]
    return Client(found.host, found.port, client_id="tour")


def _described(coordinator: Client) -> Any:
    return coordinator.ask(_describe_groups, 5, groups=[_group]).groups[0]


def _stable(coordinator: Client, members: int) -> Any:
    def is_stable() -> bool:
        group = _described(coordinator)
        return group.group_state == "Stable" and len(group.members) == members

    _wait(is_stable, f"{members} members in a stable group")
    return _described(coordinator)


def _owners(group: Any, topic: str) -> tuple[tuple[str, ...], ...]:
    rows = []
    for member in group.members:
        owned = read_assignment(member.member_assignment).get(topic, ())
        rows.append((member.member_id[:16] + "…", member.client_host, ", ".join(map(str, owned))))
    return (("member", "host", "partitions"), *rows)


def _wait(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not is_so():
        if time.monotonic() > deadline:
            raise TourFailed(f"waited {_PATIENCE:.0f} s for {what}")
        time.sleep(0.05)


@contextmanager
def _member(cluster: EmbeddedCluster, topic: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A consumer in a process of its own."""
    command = [sys.executable, "-m", "kcoord.testing.tour_client", "join", cluster.bootstrap, topic, _group]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:  # noqa: S603 - our own
        try:
            yield process
        finally:
            process.kill()
