"""Tests of Ctrl-C and SIGTERM in the middle of a change: the report equals the state of the cluster."""

import itertools
import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from kcoord.admin.groups.removing import MEMBERS_AT_ONCE
from kcoord.admin.model import TopicPartition
from kcoord.admin.wire.cluster import WireCluster
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.testing.embedded import EmbeddedCluster
from tests.commands.offsets.expectations import undo_file
from tests.commands.offsets.relay import HOST, Relay, relay
from tests.commands.terminal import KCOORD, PATIENCE, quiet_environment
from tests.support.admin.fake_cluster import LONG, LiveFixture, assigned, connection
from tests.support.admin.offsets_scene import OffsetsScene

GROUPS = [f"g-{number:04}" for number in range(60)]
OLD, NEW = 50, 0


class RelayedCluster(NamedTuple):
    scene: OffsetsScene
    relay: Relay


@pytest.fixture(scope="module")
def relayed(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[RelayedCluster]:
    with (
        kcoord_cluster_factory(topics={"orders": 1}, options=("--advertise", HOST)) as cluster,
        relay(cluster.bootstrap) as between,
    ):
        scene = OffsetsScene(f"127.0.0.1:{cluster.bootstrap.rpartition(':')[2]}")
        scene.produce("orders", 0, [1_700_000_000_000] * 100)
        yield RelayedCluster(scene, between)


@pytest.fixture(autouse=True)
def _groups(relayed: RelayedCluster) -> None:
    relayed.relay.on_request = lambda _: True
    for name in GROUPS:
        relayed.scene.commit(name, {("orders", 0): OLD})


def committed(relayed: RelayedCluster) -> Mapping[str, int | None]:
    """Returns the committed offset of each group, None if it has none."""
    cluster = WireCluster(connection(relayed.relay.address))
    try:
        found = cluster.committed(GROUPS).found
    finally:
        cluster.close()
    tp = TopicPartition("orders", 0)
    return {name: found[name][tp].offset if tp in found[name] else None for name in GROUPS}


class RunResult(NamedTuple):
    """What a command printed, and the API keys of the requests that it sent after its first signal."""

    exit_code: int
    stdout: str
    stderr: str
    sent_after: list[int]

    @property
    def counts(self) -> dict[str, int]:
        """The numbers in the line that reports the interruption."""
        (line,) = re.findall(r"^Interrupted: (\d.*)\.$", self.stderr, re.MULTILINE)
        kinds = {"of": "done", "may": "uncertain", "refused": "refused", "not": "untried"}
        found = re.findall(r"(\d+) (?:were |was )?(of|may|refused|not)", line)
        return {kinds[word]: int(number) for number, word in found}


def interrupted(
    relayed: RelayedCluster,
    *arguments: str,
    at: tuple[int, int],
    signals: tuple[int, ...],
    before: tuple[str, ...] = (),
) -> RunResult:
    """Runs a command that gets its first signal when its request of that API and number is on the way to the broker.

    If there are more signals, the broker handles that request and its response is lost. Each further signal is sent
    after the command has acknowledged the one before. `before` starts the command, as nohup does.
    """
    process = subprocess.Popen(
        [*before, *KCOORD, *arguments, "-b", relayed.relay.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=quiet_environment(),
        text=True,
    )
    counts = itertools.count(1)
    is_sent = threading.Event()

    sent_after: list[int] = []

    def on_request(api: int) -> bool:
        if is_sent.is_set():
            sent_after.append(api)
            return True
        if api != at[0] or next(counts) != at[1]:
            return True
        is_sent.set()
        process.send_signal(signals[0])
        return len(signals) == 1

    relayed.relay.on_request = on_request
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        stderr_parts = []
        for further in signals[1:]:
            stderr_parts.append(_line_with(process.stderr, "Interrupt again"))
            process.send_signal(further)
        stdout, stderr = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        relayed.relay.on_request = lambda _: True
    assert "Traceback" not in stderr
    assert is_sent.is_set(), stderr
    return RunResult(process.returncode, stdout, "".join(stderr_parts) + stderr, sent_after)


def _line_with(stream: Iterator[str], word: str) -> str:
    text = ""
    for line in stream:
        text += line
        if word in line:
            return text
    raise AssertionError(text)


RESET = ("offsets", "reset", "--regex", "^g-", "--all-topics", "--to", "earliest", "--execute")


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_is_said_to_be_changed_is_changed_and_the_rest_is_not(
    relayed: RelayedCluster, number: int, exit_code: int
) -> None:
    result = interrupted(relayed, *RESET, at=(ApiKey.OFFSET_COMMIT, 17), signals=(number,))
    now = committed(relayed)
    assert result.exit_code == exit_code
    assert result.counts == {"done": 17, "untried": 43}
    assert [name for name in GROUPS if now[name] == NEW] == GROUPS[:17]
    assert {now[name] for name in GROUPS[17:]} == {OLD}
    assert "Nothing was changed" not in result.stderr
    # The offsets of what was changed are read again; the four batches that were not begun are not looked at.
    assert result.sent_after.count(ApiKey.OFFSET_FETCH) == 1


def test_the_undo_file_takes_back_what_was_done_before_the_interruption(relayed: RelayedCluster, folder: Path) -> None:
    result = interrupted(relayed, *RESET, at=(ApiKey.OFFSET_COMMIT, 5), signals=(signal.SIGINT,))
    (proposed,) = re.findall(r"^To take it back: kcoord (.*)$", result.stderr, re.MULTILINE)
    assert undo_file(folder) in proposed
    assert NEW in committed(relayed).values()
    undone = subprocess.run(
        [*KCOORD, *proposed.split()], capture_output=True, text=True, env=quiet_environment(), check=False
    )
    assert undone.returncode == 0, undone.stderr
    assert set(committed(relayed).values()) == {OLD}


def test_the_table_of_results_tells_the_three_kinds_apart(relayed: RelayedCluster) -> None:
    result = interrupted(
        relayed, *RESET, "-o", "json", at=(ApiKey.OFFSET_COMMIT, 4), signals=(signal.SIGINT, signal.SIGINT)
    )
    results = [each["result"] for each in json.loads(result.stdout)["partitions"]]
    assert results == ["done"] * 3 + ["unknown"] + ["not-tried"] * 56


@pytest.mark.parametrize("signals", [(signal.SIGINT, signal.SIGINT), (signal.SIGINT, signal.SIGTERM)])
def test_a_second_signal_ends_it_at_once_and_what_was_in_flight_is_named_as_uncertain(
    relayed: RelayedCluster, signals: tuple[int, ...]
) -> None:
    result = interrupted(relayed, *RESET, at=(ApiKey.OFFSET_COMMIT, 8), signals=signals)
    now = committed(relayed)
    assert result.exit_code == 130
    assert result.counts == {"done": 7, "uncertain": 1, "untried": 52}
    assert f"as no answer was waited for: group {GROUPS[7]!r}." in result.stderr
    assert "To take it back: " in result.stderr
    assert {now[name] for name in GROUPS[:8]} == {NEW}  # the broker committed, though its response was lost
    assert {now[name] for name in GROUPS[8:]} == {OLD}


def test_an_interrupt_before_the_first_change_says_that_nothing_was_changed(
    relayed: RelayedCluster, folder: Path
) -> None:
    result = interrupted(relayed, *RESET, at=(ApiKey.LIST_GROUPS, 1), signals=(signal.SIGINT,))
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "Interrupted: nothing was changed.\n"
    assert set(committed(relayed).values()) == {OLD}
    assert not list(folder.iterdir())


def test_a_signal_that_is_ignored_as_in_the_background_interrupts_nothing(relayed: RelayedCluster) -> None:
    ignoring = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh")
    result = interrupted(relayed, *RESET, at=(ApiKey.OFFSET_COMMIT, 5), signals=(signal.SIGINT,), before=ignoring)
    assert result.exit_code == 0
    assert "Interrupted" not in result.stderr
    assert set(committed(relayed).values()) == {NEW}


def test_sigterm_before_the_first_change_says_so_too(relayed: RelayedCluster, folder: Path) -> None:
    result = interrupted(relayed, *RESET, at=(ApiKey.OFFSET_FETCH, 1), signals=(signal.SIGTERM,))
    assert (result.exit_code, result.stdout, result.stderr) == (143, "", "Interrupted: nothing was changed.\n")
    assert not list(folder.iterdir())


DELETE = ("groups", "delete", "--regex", "^g-", "--execute")


def test_deleting_groups_says_what_is_deleted_and_what_is_there_still(
    relayed: RelayedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60, 300):
        relayed.scene.commit(f"g-{number:04}", {("orders", 0): OLD})
    result = interrupted(relayed, *DELETE, at=(ApiKey.DELETE_GROUPS, 1), signals=(signal.SIGINT,))
    left = [name for name in _listed(relayed) if name.startswith("g-")]
    assert result.exit_code == 130
    assert result.counts["untried"] == len(left) > 0
    assert result.counts["done"] == 300 - len(left) > 0
    assert "To bring the offsets back: " in result.stderr
    result = interrupted(relayed, *DELETE, at=(ApiKey.DELETE_GROUPS, 1), signals=(signal.SIGINT, signal.SIGINT))
    assert result.exit_code == 130
    assert result.counts["uncertain"] > 0
    assert result.counts["untried"] == len([name for name in _listed(relayed) if name.startswith("g-")])
    assert "To bring the offsets back: " in result.stderr


def _listed(relayed: RelayedCluster) -> list[str]:
    cluster = WireCluster(connection(relayed.relay.address))
    try:
        return sorted(cluster.list_groups().found)
    finally:
        cluster.close()


@contextmanager
def _members(group: str, count: int, relayed: RelayedCluster) -> Iterator[None]:
    """Members of a group that wait for each other to join, each on a connection of its own."""
    host, _, port = relayed.relay.address.rpartition(":")
    with LiveFixture(relayed.relay.address) as fixture, ExitStack() as connections:
        for _ in range(count):
            client = connections.enter_context(Client(host, int(port)))
            protocols = [{"name": "range", "metadata": b""}]
            client.send(
                ApiKey.JOIN_GROUP,
                3,
                group_id=group,
                member_id="",
                protocol_type="consumer",
                protocols=protocols,
                session_timeout=LONG,
                rebalance_timeout=LONG,
            )
        deadline = time.monotonic() + PATIENCE
        while len(fixture.cluster.describe_groups([group]).found[group].members) < count:
            assert time.monotonic() < deadline, "not all members have joined"
        yield


def test_members_after_the_batch_that_was_interrupted_stay(relayed: RelayedCluster) -> None:
    count = 2 * MEMBERS_AT_ONCE + 1
    with _members("crowd", count, relayed):
        result = interrupted(
            relayed,
            *("groups", "remove-member", "crowd", "--all-members", "--execute"),
            at=(ApiKey.LEAVE_GROUP, 1),
            signals=(signal.SIGINT,),
        )
    assert result.exit_code == 130
    assert result.counts == {"done": MEMBERS_AT_ONCE, "untried": count - MEMBERS_AT_ONCE}
    assert ApiKey.LEAVE_GROUP not in result.sent_after


def test_removing_members_says_whether_they_are_gone(relayed: RelayedCluster) -> None:
    with LiveFixture(relayed.relay.address) as live:
        live.join("team", assignment=assigned("orders", 0))
        result = interrupted(
            relayed,
            *("groups", "remove-member", "team", "--all-members", "--execute"),
            at=(ApiKey.LEAVE_GROUP, 1),
            signals=(signal.SIGINT, signal.SIGINT),
        )
        assert not live.cluster.describe_groups(["team"]).found["team"].members
    assert result.exit_code == 130
    assert result.counts == {"done": 0, "uncertain": 1, "untried": 0}
    assert "describe team" in result.stderr
