"""`kcoord groups doctor` and `kcoord groups watch` with real consumers, on kcoord serve and on a real Kafka."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kcoord.admin.connecting.connection import ConnectionOptions, resolve_connection
from kcoord.admin.doctor.case import Facts
from kcoord.admin.doctor.examining import examine
from kcoord.admin.doctor.finding import Code
from kcoord.admin.groups.snapshot_reader import read_snapshot
from kcoord.admin.opening import open_cluster
from kcoord.assignors.plan import Subscriber, Topics, list_partitions
from kcoord.assignors.range import assign_range
from kcoord.testing.cluster import Cluster
from kcoord.testing.embedded import EmbeddedCluster
from kcoord.testing.process import CapturedProcess
from tests.integration.groups.ward import PARTS, TOPICS, Patient, Ward, commit_all, storm, ward

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"}


@pytest.fixture(scope="module")
def kafka(kafka_cluster_factory: Callable[..., Cluster]) -> Cluster:
    return kafka_cluster_factory(properties=SETTINGS)


@pytest.fixture(scope="module")
def visits(
    kafka: Cluster, kcoord_cluster_factory: Callable[..., EmbeddedCluster]
) -> Iterator[dict[str, tuple[Ward, Any]]]:
    """The groups on both clusters, and the doctor's findings: both run at the same time, since most of it is
    waiting."""
    kcoord = kcoord_cluster_factory(settings=SETTINGS)
    with ExitStack() as wards, ThreadPoolExecutor() as pool:
        visits = {
            "kcoord": pool.submit(_visit, kcoord.bootstrap, wards),
            "kafka": pool.submit(_visit, kafka.bootstrap, wards),
        }
        yield {name: visit.result() for name, visit in visits.items()}


@pytest.fixture(params=["kcoord", "kafka"])
def patients(request: pytest.FixtureRequest, visits: dict[str, tuple[Ward, Any]]) -> tuple[Ward, Any]:
    return visits[request.param]


def _visit(bootstrap: str, wards: ExitStack) -> tuple[Ward, Any]:
    opened = wards.enter_context(ward(bootstrap))
    with storm(bootstrap):
        return opened, _doctor(bootstrap, "--all-groups", "--for", "11s", "--every", "500ms")


def _doctor(bootstrap: str, *arguments: str) -> Any:
    done = subprocess.run(
        [*_kcoord("doctor"), "-b", bootstrap, "-o", "json", *arguments], capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 1, done.stderr  # exit code: there are errors
    return json.loads(done.stdout)


def _kcoord(verb: str) -> list[str]:
    return [sys.executable, "-m", "kcoord.commands", "groups", verb]


def _of(visit: Any, group: str) -> dict[str, Any]:
    return {finding["code"]: finding for finding in visit["findings"] if finding["group"] == group}


def test_a_healthy_group_has_no_findings(patients: tuple[Ward, Any]) -> None:
    _, visit = patients
    assert visit["kcoord"] == "groups-doctor/v1"
    assert visit["seconds"] >= 11
    assert "healthy" in visit["groups"]
    assert _of(visit, "healthy") == {}


def test_the_idle_member_is_the_one_without_partitions(patients: tuple[Ward, Any]) -> None:
    opened, visit = patients
    found = _of(visit, "crowded")
    assert found.keys() == {"idle-members"}
    owned = opened.view.describe("crowded").assignments
    assert [each["member_id"] for each in found["idle-members"]["facts"]["idle"]] == [
        member for member, partitions in owned.items() if not partitions
    ]


def test_range_over_many_topics_is_uneven_as_computed(patients: tuple[Ward, Any]) -> None:
    opened, visit = patients
    found = _of(visit, "ranged")
    assert found.keys() == {"uneven-assignment"}
    shares = found["uneven-assignment"]["facts"]["members"]
    assert sorted(each["partitions"] for each in shares) == [0, 4, 4]
    assert sorted(each["with_sticky"] for each in shares) == [2, 3, 3]
    owned = opened.view.describe("ranged").assignments
    plan = assign_range([Subscriber(member_id=member, topics=PARTS) for member in owned], Topics(counts=TOPICS))
    assert {
        member: frozenset(f"{topic}-{index}" for topic, index in list_partitions(plan[member])) for member in plan
    } == owned


def test_a_group_that_is_too_slow_falls_behind(patients: tuple[Ward, Any]) -> None:
    _, visit = patients
    growing = _of(visit, "slow")["lag-growing"]
    assert growing["facts"]["lag_after"] > growing["facts"]["lag_before"]
    assert growing["facts"]["produced_per_second"] > growing["facts"]["consumed_per_second"] > 0


def test_commits_that_stand_still_are_told_of_each_partition(patients: tuple[Ward, Any]) -> None:
    _, visit = patients
    still = _of(visit, "stuck")["commits-stand-still"]
    assert [(each["partition"], each["committed"]) for each in still["facts"]["partitions"]] == [(0, 1), (1, 1)]
    assert still["facts"]["partitions"][0]["owner"]["client_id"] == "stuck-0"


def test_partitions_without_a_commit_are_told(patients: tuple[Ward, Any]) -> None:
    _, visit = patients
    found = _of(visit, "silent")
    assert found["nothing-committed"]["severity"] == "warning"
    assert found["nothing-committed"]["evidence"][0] == "not committed: work 0-1"


def test_a_member_that_comes_and_goes_is_named(patients: tuple[Ward, Any]) -> None:
    _, visit = patients
    storm = _of(visit, "stormy")["frequent-rebalances"]
    assert storm["facts"]["rebalances"] >= 3
    (client,) = storm["facts"]["member_ids_by_client"]
    assert client.startswith("flaky ")


def test_groups_without_members_are_told_by_their_lag(patients: tuple[Ward, Any]) -> None:
    _, visit = patients
    asleep = _of(visit, "asleep")
    assert asleep.keys() == {"no-members"}
    assert asleep["no-members"]["severity"] == "warning"  # the lag grows
    assert _of(visit, "astray").keys() == {"offset-beyond-log-end"}


def test_a_static_member_that_does_not_come_back_is_missed(patients: tuple[Ward, Any]) -> None:
    opened, _ = patients
    timeouts = {"session.timeout.ms": 1500, "max.poll.interval.ms": 10_000}
    members = [
        Patient(opened.bootstrap, "static", name, ["work"], commit_all(), **{"group.instance.id": name, **timeouts})
        for name in ("worker-1", "worker-2")
    ]
    opened.wait_for_members("static", 2)
    with open_cluster(resolve_connection(ConnectionOptions(bootstrap=opened.bootstrap), {})) as cluster:
        before = read_snapshot(cluster, ["static"], at=time.time(), with_times=False)
        members[0].close()
        opened.wait_for_members("static", 1)
        after = read_snapshot(cluster, ["static"], at=time.time(), with_times=False)
    members[1].close()
    missing = {finding.code: finding for finding in examine([before, after], Facts())}[Code.STATIC_MEMBER_MISSING]
    assert [each["instance_id"] for each in missing.facts["missing"]] == ["worker-1"]


def test_records_that_were_deleted_unread_are_counted(kafka: Cluster) -> None:
    """It runs on a real Kafka only: kcoord serve has no DeleteRecords."""
    opened = Ward(kafka.bootstrap)
    with closing(opened.view):
        opened.make_topic("deleted", 1)
    opened.commit_as_nobody("robbed", "deleted", 0, 10)
    for future in opened.admin.delete_records([TopicPartition("deleted", 0, 30)]).values():
        future.result(60)
    visit = _doctor(kafka.bootstrap, "robbed")
    lost = _of(visit, "robbed")["offset-before-log-start"]
    assert lost["severity"] == "error"
    assert lost["evidence"] == ["deleted-0: committed 10, but the log starts at 30: 20 lost"]


def test_a_watch_survives_the_restart_of_a_broker(kafka: Cluster) -> None:
    """The output is lines of JSON, since stdout is a pipe that a program reads."""
    member = Patient(kafka.bootstrap, "watched", "watched-0", ["work"], commit_all())
    watching = CapturedProcess(
        [*_kcoord("watch"), "watched", "-b", kafka.bootstrap, "--every", "500ms", "-o", "json"],
        name="kcoord groups watch",
    )
    try:
        watching.wait_for('"event": "look"', timeout=60)
        kafka.kill(1)
        watching.wait_for('"kind": "unreachable"', timeout=60)
        kafka.restart(1)
        watching.wait_for('"kind": "reachable"', timeout=60)
    finally:
        watching.kill()
        member.close()
