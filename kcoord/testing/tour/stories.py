"""The tour: three stories, played with the command lines that a user would type, against embedded clusters.

a client tester   starts a cluster; members join, one is killed, the others take over
an operator       sees a group that has fallen behind, and moves its offsets: plan, change, undo
a migrator        carries the offsets to a second cluster that has the same records
"""

import signal
import time
from collections.abc import Generator, Iterator
from contextlib import closing

from ..errors import TimedOutError
from ..node import free_ports
from .groups import TourGroup
from .shell import Job, TourShell, activation_remark
from .step import Event, Printed, Remark, Story, TourFailed

_TOPIC, _PARTITIONS, _GROUP = "orders", 6, "payments"
_READ, _UNREAD = 10_000, 2_000
_CLIENT = "python -m kcoord.testing.tour_client"
_QUICK = "--set group.initial.rebalance.delay.ms=0 --set group.min.session.timeout.ms=1000"
_ATTEMPTS = 5


def tour() -> Generator[Event]:
    """Runs the tour of `kcoord demo`, and yields its events, each when it happens; closing the generator stops whatever
    was started."""
    with TourShell() as shell:
        yield from activation_remark()
        address, server = yield from _client_tester(shell)
        with closing(TourGroup(address, _GROUP)) as group:
            members = yield from _members_join(shell, address, group)
            yield from _one_is_killed(shell, address, group, members.pop(), server)
            yield from _operator(shell, address, group, members)
        new = yield from _migrator(shell, address)
        yield Remark(text="Both clusters are stopped, and their records are gone.")
        yield from shell.kill([server, new])


def _client_tester(shell: TourShell) -> Generator[Event, None, tuple[str, Job]]:
    yield Story(title="A client tester", about="A cluster for the clients under test; one of them is killed.")
    address, server = yield from _serve(shell, _QUICK)
    yield Remark(text="A real client, confluent-kafka, writes records whose times are two hours to one hour ago.")
    yield from shell.run(f"{_CLIENT} produce {address} {_TOPIC} {_READ} 2h 1h")
    return address, server


def _members_join(shell: TourShell, address: str, group: TourGroup) -> Generator[Event, None, list[Job]]:
    yield Remark(text="Three members join a group, each a process of its own.")
    members: list[Job] = []
    while len(members) < 3:
        member = yield from shell.background(f"{_CLIENT} join {address} {_TOPIC} {_GROUP}")
        members.append(member)
    group.wait_until_stable(3)
    group.wait_until_committed(_TOPIC, _PARTITIONS, _READ)
    yield from shell.run(f"kcoord groups describe {_GROUP} -b {address}")
    return members


def _one_is_killed(shell: TourShell, address: str, group: TourGroup, member: Job, server: Job) -> Iterator[Event]:
    yield from shell.kill([member], signal.SIGKILL)
    began = time.monotonic()
    group.wait_until_stable(2)
    yield Remark(
        text=f"Its session of 2 s ran out, and after {time.monotonic() - began:.1f} s the others had its partitions. "
        "The server's log says why:"
    )
    logged = [
        line.split(" INFO ", 1)[-1] for line in server.process.stderr().splitlines() if f" group={_GROUP} " in line
    ]
    if not any("expired" in line for line in logged):
        raise TourFailed("the server's log does not tell of the member that was killed")
    yield Printed(text="\n".join(logged[-2:]))
    yield from shell.run(f"kcoord groups describe {_GROUP} -b {address}")


def _operator(shell: TourShell, address: str, group: TourGroup, members: list[Job]) -> Iterator[Event]:
    yield Story(
        title="An operator", about="The members are stopped while records go on coming: what is wrong, and what to do?"
    )
    yield from shell.kill(members)
    group.wait_until_empty()
    at = f"-b {address}"
    yield from shell.run(f"{_CLIENT} produce {address} {_TOPIC} {_UNREAD} 1h 0h")
    yield from shell.run(f"kcoord groups list {at}")
    yield from shell.run(f"kcoord groups describe {_GROUP} {at}")
    yield from shell.run(f"kcoord groups doctor {_GROUP} {at} --fail-on never")
    yield Remark(text="What is older than half an hour is to be skipped. First the plan: nothing is changed.")
    reset = f"kcoord offsets reset {_GROUP} --topic {_TOPIC} --to @-30m"
    yield from shell.run(f"{reset} {at}")
    yield from shell.run(f"{reset} --execute --undo undo.json {at}")
    yield from shell.run(f"kcoord groups lag {_GROUP} {at}")
    yield Remark(text="It was a mistake, and is undone.")
    yield from shell.run(f"kcoord offsets undo undo.json --execute {at}")
    yield from shell.run(f"kcoord groups lag {_GROUP} {at}")


def _migrator(shell: TourShell, address: str) -> Generator[Event, None, Job]:
    yield Story(
        title="A migrator", about="A second cluster takes over: the group is to go on there where it stopped here."
    )
    new, server = yield from _serve(shell)
    yield Remark(text="Records are mirrored with their times; a topic there has another id, hence --ignore-topic-ids.")
    yield from shell.run(f"{_CLIENT} mirror {address} {new} {_TOPIC}")
    yield Remark(
        text="The record at each offset is compared on both sides: if the mirror lacks records, the group is refused."
    )
    copy = f"kcoord offsets copy --from {address} --to {new} --group {_GROUP} --ignore-topic-ids"
    yield from shell.run(copy)
    yield from shell.run(f"{copy} --execute")
    yield Remark(text="Exit code 0: the same offsets on both, at records that were found to be the same.")
    yield from shell.run(f"kcoord offsets diff broker:{address} broker:{new} --group {_GROUP}")
    yield from shell.run(f"kcoord groups describe {_GROUP} -b {new}")
    return server


def _serve(shell: TourShell, options: str = "") -> Generator[Event, None, tuple[str, Job]]:
    """Starts a cluster on a free port, another one if that was taken meanwhile; returns its address and job."""
    for attempt in range(1, _ATTEMPTS + 1):
        address = f"127.0.0.1:{free_ports(1)[0]}"
        line = f"kcoord serve --listen {address} --topic {_TOPIC}:{_PARTITIONS} {options}".rstrip()
        process = shell.start(line)
        try:
            process.wait_for("Ctrl-C stops it", timeout=30)
        except TimedOutError as error:
            if attempt == _ATTEMPTS or "in use" not in process.stderr():
                raise TourFailed(str(error)) from error
            continue
        job = yield from shell.background(line, process)
        yield Printed(text=process.stdout())
        return address, job
    raise AssertionError("the last attempt returns or raises")
