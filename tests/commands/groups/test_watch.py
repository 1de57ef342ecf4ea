"""Tests of `kcoord groups watch` on an embedded cluster: the screen, the lines of a pipe, the JSON."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from itertools import islice
from typing import Any

import pytest

from kcoord.admin.cluster_client import Refused
from kcoord.admin.connecting.connection import Connection
from kcoord.admin.groups.group_snapshot import Snapshot
from kcoord.admin.groups.snapshot_changes import ChangeKind, WatchHistory
from kcoord.admin.model import Committed, Refusal, Resource, TopicPartition
from kcoord.admin.opening import open_cluster
from kcoord.admin.wire.brokers import Unsupported
from kcoord.errors import ErrorCode
from kcoord.testing.embedded import EmbeddedCluster
from tests.support.admin.snapshots import NOW, group, member, seen, snapshot

from ..terminal import KCOORD, in_terminal, piped, quiet_environment

snapshots: Any = import_module("kcoord.commands.groups.watch.snapshots")
screen: Any = import_module("kcoord.commands.groups.watch.screen")  # by name: mypy sees the folder, commands/
views: Any = import_module("kcoord.commands.groups.watch.views")
printable: Any = import_module("kcoord.commands.output.printable")

LONG = "a-topic-whose-name-is-far-too-long-for-a-narrow-terminal.of-some-department.v2"


@pytest.fixture(scope="module")
def bootstrap(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> str:
    cluster = kcoord_cluster_factory(topics={"orders": 2})
    with open_cluster(Connection(bootstrap=(cluster.bootstrap,))) as live:
        live.commit("billing", {TopicPartition("orders", 0): Committed(0)})
        live.commit("evil\x1b[2J name", {TopicPartition("orders", 1): Committed(0)})
    return cluster.bootstrap


def _watch(partitions: int = 4, groups: int = 1) -> WatchHistory:
    """Returns a history in which each partition gets ten records a second; the owner of the first two keeps up, the
    other does not."""
    watch = WatchHistory()
    for after in (0, 10, 20):
        watch.add(snapshot(*(_group(number, partitions, after) for number in range(groups)), after=after))
    return watch


def _group(number: int, partitions: int, after: int) -> Any:
    names = [f"{LONG if index % 2 else 'orders'}-{index}" for index in range(partitions)]
    members = [member("fast", *names[:2]), member("slow\x1b[31m", *names[2:])]
    logs = {
        name: (1000 + 10 * after - 7 if index < 2 else after, 0, 1000 + 10 * after) for index, name in enumerate(names)
    }
    state = "Stable" if after < 20 else "PreparingRebalance"
    return seen(group(*members, name=f"group-{number}", state=state), logs)


def _frame(watch: WatchHistory, columns: int, rows: int, **changes: Any) -> list[str]:
    frame = screen.Frame(where="broker:9092", now=NOW, width=columns, height=rows, **{"is_colored": False, **changes})
    lines: list[str] = screen.draw(watch, frame).text.splitlines()
    return lines


@pytest.mark.parametrize(("columns", "rows"), [(40, 12), (80, 24), (200, 50)])
@pytest.mark.parametrize(("partitions", "groups"), [(4, 1), (40, 1), (4, 30)])
def test_a_screen_is_never_larger_than_the_terminal(columns: int, rows: int, partitions: int, groups: int) -> None:
    lines = _frame(_watch(partitions, groups), columns, rows)
    assert len(lines) <= rows
    assert max(map(printable.width, lines)) <= max(columns, 67)  # numbers are never cut
    assert not any("\x1b" in line for line in lines)


def test_the_screen_tells_state_lag_pace_owners_and_what_changed() -> None:
    assert _frame(_watch(), 200, 50) == [
        "08:00:20 UTC · Ctrl-C ends · 1 group by lag · broker:9092",
        "",
        "GROUP    STATE               MEMBERS    LAG  IN/S  OUT/S  BEHIND  CATCHES-UP-IN",
        "group-0  PreparingRebalance        2  2,374    40     22    >20s          never",
        "",
        f"OWNER         HOST      {'TOPIC':78}  PARTITION    LAG  IN/S  OUT/S  BEHIND  CATCHES-UP-IN",
        f"fast          10.0.0.1  {LONG}          1      7    10     10    0.7s      caught up",
        f"                        {'orders':78}          0      7    10     10    0.7s      caught up",
        rf"slow\x1b[31m  10.0.0.1  {LONG}          3  1,180    10    1.0    >20s          never",
        f"                        {'orders':78}          2  1,180    10    1.0    >20s          never",
        "",
        "LAST CHANGES",
        "08:00:20  group-0: Stable → PreparingRebalance",
    ]


def test_where_not_all_fit_those_with_most_lag_are_shown() -> None:
    lines = _frame(_watch(partitions=40), 120, 20)
    assert any(line.startswith(r"slow\x1b[31m") for line in lines)
    assert not any(line.startswith("fast") for line in lines)
    assert any("partitions more, with lag" in line for line in lines)


def test_many_groups_are_shown_by_lag_and_the_rest_is_counted() -> None:
    lines = _frame(_watch(groups=100), 80, 24)
    assert any(line.startswith("1-") and line.endswith(" of 100 groups") for line in lines)


NAME = "a-rather-long-client-id-as-orchestrators-make-them-7d9f8b6c5-x2x9z"


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_what_a_member_did_is_never_cut_off(columns: int) -> None:
    watch = WatchHistory()
    for after, members in ((0, [member("a", "orders-0")]), (2, [member("a", "orders-0"), member(NAME, "orders-1")])):
        watch.add(snapshot(seen(group(*members, name="a-group-with-a-long-name-too")), after=after))
    lines = _frame(watch, columns, 40)
    changes = " ".join(line.strip() for line in lines[lines.index("LAST CHANGES") + 1 :])
    assert " joined" in changes or columns == 40  # the older change has no room there
    assert changes.endswith("got orders 1")
    assert max(map(len, lines[lines.index("LAST CHANGES") :])) <= columns


def test_a_change_that_fits_names_the_member_in_full() -> None:
    watch = WatchHistory()
    for after, members in ((0, []), (2, [member("app", "orders-0")])):
        watch.add(snapshot(seen(group(*members)), after=after))
    assert "08:00:02  g: app 10.0.0.1 (app-id) joined" in _frame(watch, 80, 24)
    assert "08:00:02  g: app (…app-id) joined" in _frame(watch, 40, 24)


def test_what_is_waited_for_is_told_on_the_screen() -> None:
    watch = WatchHistory()
    away = [
        Refusal(kind=Resource.GROUP, name=name, error=ErrorCode.group_id_not_found) for name in ("later", "much-later")
    ]
    watch.add(snapshot(refused=away))
    assert _frame(watch, 80, 24)[1] == "group later: GROUP_ID_NOT_FOUND (and 1 more); waiting for it"


def test_a_cluster_that_is_away_is_told_on_the_screen() -> None:
    watch = _watch()
    watch.add_failure(NOW + 22, "127.0.0.1:9092: connection refused")
    lines = _frame(watch, 80, 24)
    assert lines[1] == "127.0.0.1:9092: connection refused; trying again"
    assert lines[-1].endswith("127.0.0.1:9092: connection refused")


@contextmanager
def _watching(bootstrap: str, *arguments: str) -> Iterator[Iterator[str]]:
    """Yields the lines of a running watch as they come, then ends it by Ctrl-C."""
    with subprocess.Popen(
        [*KCOORD, "groups", "watch", "-b", bootstrap, "--every", "200ms", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=quiet_environment(),
    ) as process:
        assert process.stdout is not None
        try:
            yield (line.removesuffix("\n") for line in process.stdout)
            os.kill(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, err) == (0, "")


def test_a_pipe_gets_one_line_for_each_look_and_group_until_ctrl_c(bootstrap: str) -> None:
    with _watching(bootstrap, "--all-groups") as watched:
        lines = list(islice(watched, 4))
    assert lines[0].endswith(" group=billing state=Empty members=0 lag=0 in=? out=? behind=0s catches_up_in=0s")
    assert r"group=evil\x1b[2J\x20name state=Empty" in lines[1]
    assert lines[2].endswith("in=0/s out=0/s behind=0s catches_up_in=0s")


def test_lines_tell_who_owns_what_at_the_first_look(capsys: pytest.CaptureFixture[str]) -> None:
    view = views.LinesView()
    watch = _watch()
    view.show(watch, ())
    first = capsys.readouterr().out.splitlines()
    assert len(first) == 3
    assert first[1].startswith("2027-01-15T08:00:20Z group=group-0 owner fast 10.0.0.1 (")
    assert first[1].endswith(f" has {LONG} 1; orders 0")
    assert r" owner slow\x1b[31m 10.0.0.1 (" in first[2]
    view.show(watch, ())
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_json_is_an_object_on_each_line(bootstrap: str) -> None:
    done = piped("groups", "watch", "billing", "-b", bootstrap, "--for", "300ms", "--every", "300ms", "-o", "json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["kcoord"] for line in lines} == {"groups-watch/v1"}
    assert [line["event"] for line in lines] == ["look"] * len(lines)
    (watched,) = lines[-1]["groups"]
    assert (watched["group"], watched["state"], watched["total_lag"]) == ("billing", "Empty", 0)
    progress = {
        "lag_seconds": 0.0,
        "is_lag_seconds_at_least": False,
        "outlook": "caught-up",
        "catches_up_in_seconds": 0.0,
    }
    assert progress.items() <= watched.items()
    assert progress.items() <= watched["partitions"][0].items()


@pytest.mark.parametrize("columns", [80, 200])
def test_the_last_screen_stays_when_the_watch_ends(bootstrap: str, columns: int) -> None:
    exit_code, lines = in_terminal("groups", "watch", "billing", "-b", bootstrap, "--for", "100ms", columns=columns)
    assert exit_code == 0
    left = "\n".join(lines).rpartition("\x1b[?1049l")[2]  # after the alternate screen is left
    assert "billing" in left
    assert max(printable.width(line) for line in left.splitlines()) <= columns + len("\x1b[32m\x1b[0m") * 4


def test_a_group_that_is_not_there_yet_is_waited_for(bootstrap: str) -> None:
    with _watching(bootstrap, "later", "-o", "json") as watched:
        first = json.loads(next(watched))
        assert [each["error"] for each in first["refused"]] == ["GROUP_ID_NOT_FOUND"]
        with open_cluster(Connection(bootstrap=(bootstrap,))) as live:
            live.commit("later", {TopicPartition("orders", 0): Committed(0)})
        change = next(line for line in map(json.loads, watched) if line["event"] == "change")
    assert (change["kind"], change["group"]) == ("group-appeared", "later")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "expected"),
    [
        (["watch"], 2, "name one or more groups"),
        (["watch", "g", "-o", "yaml"], 2, "-o json is one object on each line"),
        (["watch", "g", "-o", "csv"], 2, "-o json is one object on each line"),
        (["watch", "g", "--every", "1"], 2, "not a span of time"),
        (["watch", "g"], 1, "127.0.0.1:1"),
    ],
)
def test_what_cannot_be_watched_is_one_line(arguments: list[str], exit_code: int, expected: str) -> None:
    done = piped("groups", *arguments, "-b", "127.0.0.1:1")
    assert done.returncode == exit_code
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1


class _Restarting:
    """A source of snapshots that fails for a time after the first snapshot."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)
        self._has_answered = False

    def snapshot(self, at: float) -> Snapshot:
        if self._has_answered and self._failures:
            raise self._failures.pop()
        self._has_answered = True
        return snapshot(seen(group()), after=0)


@pytest.mark.parametrize("trouble", [ConnectionResetError("gone"), Refused("not yet"), Unsupported("too old")])
def test_brokers_that_start_and_refuse_all_do_not_end_a_watch(trouble: Exception) -> None:
    taken, memory = (
        snapshots.poll_snapshots(_Restarting(trouble).snapshot, timedelta(seconds=2), None, sleep=lambda _: None),
        WatchHistory(),
    )
    kinds = [change.kind for result in islice(taken, 3) for change in snapshots.record_result(memory, *result)]
    assert kinds == [ChangeKind.UNREACHABLE, ChangeKind.REACHABLE]
