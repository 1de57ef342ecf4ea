"""A member of a group as a program: commands come in, what happens to the member goes out, one JSON object per line.

GroupMember.java and franz_go/main.go speak the same lines, so that a scenario is written once for all clients.

| command on stdin                     | what the member does                                                         |
|--------------------------------------|------------------------------------------------------------------------------|
| {"do": "join", …the fields of Join}  | joins the group, reads and commits from now on; the first command, given once |
| {"do": "pause"}                      | works on what it has read for long: neither polls nor commits of itself       |
| {"do": "resume"}                     | polls again                                                                  |
| {"do": "commit"}                     | commits what it has read, also while it pauses                               |
| {"do": "leave"}                      | closes the client, as a program that ends well does                          |

| event on stdout | besides event, at (seconds since 1970), generation, member (its id)                              |
|-----------------|--------------------------------------------------------------------------------------------------|
| ready           | the program runs; it does nothing before the command to join                                     |
| assigned        | partitions that it got, owned: all that it has now                                               |
| revoked         | partitions that it gave back, owned                                                              |
| lost            | partitions that others may have already, owned                                                   |
| generation      | a new generation that changed nothing: owned                                                     |
| read            | partition, first and last offset of records that came in one piece                               |
| committed       | offsets by partition, which the coordinator has accepted                                         |
| refused         | offsets by partition, and the error: they are not committed                                      |
| paused, resumed | it has stopped polling, it polls again                                                           |
| left            | the client is closed; the program ends                                                           |
| error           | an error that the client reported instead of records                                             |

A partition is written "topic-0". The generation of an event is the last one in which the member learned what it owns;
kafka-python has no callback for a generation that changes nothing, so it is asked after each poll. A record's value is
its offset as text, which the member checks.
"""

import json
import queue
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """The options of a member."""

    bootstrap: str
    group: str
    topics: list[str]
    client_id: str
    assignor: str
    """Kafka's name of the assignor: range, roundrobin, sticky, cooperative-sticky."""
    instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    """The maximum between two polls; a rebalance also waits so long for this member."""
    metadata_max_age_ms: int
    commits: Literal["each-poll", "when-revoked", "when-told"]


class GroupClient(Protocol):
    """What each client library has to implement for the loop below."""

    def join(self, request: Join) -> None: ...

    def poll(self) -> None:
        """Waits a moment for records, typically POLL_SECONDS, and passes them to the membership."""

    def commit(self, offsets: dict[str, int]) -> None:
        """Commits, and waits until the coordinator has answered; raises its refusal."""

    def generation_without_callback(self) -> tuple[int, str] | None:
        """Returns the current generation and member id, if the client has no callback for some generations."""

    def close(self) -> None: ...


class Membership:
    """What the member owns and has read, emitted as events on stdout. Callbacks may come on the client's thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._generation, self._member = -1, ""
        self._owned: set[str] = set()
        self._uncommitted: dict[str, int] = {}
        self.commits_when_revoked = False

    def emit(self, event: str, **what: Any) -> None:
        with self._lock:
            line = {
                "event": event,
                "at": time.time(),
                "generation": self._generation,
                "member": self._member,
                **what,
            }
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    def assigned(self, partitions: Iterable[str], identity: tuple[int, str]) -> None:
        with self._lock:
            self._generation, self._member = identity
            fresh = set(partitions)
            self._owned |= fresh
            # Reading starts at the group's committed offset, not where this member once was.
            for partition in fresh:
                self._uncommitted.pop(partition, None)
            self._emit_owned("assigned", fresh)

    def revoked(self, partitions: Iterable[str], identity: tuple[int, str]) -> None:
        self._gone("revoked", set(partitions), identity)

    def lost(self, partitions: Iterable[str], identity: tuple[int, str]) -> None:
        self._gone("lost", set(partitions), identity)

    def unchanged(self, identity: tuple[int, str]) -> None:
        """Reports the same partitions in this generation, unless the generation is known already."""
        with self._lock:
            if identity != (self._generation, self._member):
                self._generation, self._member = identity
                self.emit("generation", owned=sorted(self._owned))

    def forget_what_was_taken(self) -> None:
        with self._lock:
            self._uncommitted = {tp: offset for tp, offset in self._uncommitted.items() if tp in self._owned}

    def read(self, partition: str, offsets: list[int], values: list[bytes]) -> None:
        """Reports records of one partition in the order in which they came."""
        assert [int(value) for value in values] == offsets, f"{partition} does not hold what was written: {offsets}"
        with self._lock:
            for first, last in _runs(offsets):
                self.emit("read", partition=partition, first=first, last=last)
            self._uncommitted[partition] = offsets[-1] + 1

    def uncommitted(self) -> dict[str, int]:
        with self._lock:
            return dict(self._uncommitted)

    def to_commit_before(self, partitions: Iterable[str]) -> dict[str, int]:
        """Returns what a callback has to commit before these partitions are revoked."""
        if not self.commits_when_revoked:
            return {}
        going = set(partitions)
        return {partition: offset for partition, offset in self.uncommitted().items() if partition in going}

    @contextmanager
    def committing(self, offsets: dict[str, int]) -> Iterator[None]:
        """Reports the result of the commit in the block."""
        try:
            yield
        except Exception as error:
            self.emit("refused", offsets=offsets, error=f"{type(error).__name__}: {error}")
            return
        with self._lock:
            self.emit("committed", offsets=offsets)
            for partition, offset in offsets.items():
                if self._uncommitted.get(partition) == offset:
                    del self._uncommitted[partition]

    def _gone(self, event: str, partitions: set[str], identity: tuple[int, str]) -> None:
        if not partitions:  # some clients call back so before they join for the first time
            return
        with self._lock:
            # A member that was fenced has no generation: what it loses, it owned in its last one.
            if identity[0] > 0:
                self._generation, self._member = identity
            self._owned -= partitions
            self._emit_owned(event, partitions)

    def _emit_owned(self, event: str, partitions: set[str]) -> None:
        self.emit(event, partitions=sorted(partitions), owned=sorted(self._owned))


def run_member(client: GroupClient, membership: Membership) -> None:
    """Executes the commands on stdin until one is to leave, or stdin ends."""
    commands = _commands()
    membership.emit("ready")
    command = commands.get()
    if command["do"] == "end":
        return
    join = Join(**{name: value for name, value in command.items() if name != "do"})
    membership.commits_when_revoked = join.commits == "when-revoked"
    client.join(join)
    is_paused = False
    while True:
        while is_paused or not commands.empty():
            match commands.get()["do"]:
                case "pause":
                    is_paused = True
                    membership.emit("paused")
                case "resume":
                    is_paused = False
                    membership.emit("resumed")
                case "commit":
                    _commit(client, membership)
                case "leave":
                    client.close()
                    membership.emit("left")
                    return
                case "end":
                    return
                case unknown:
                    raise ValueError(f"there is no command {unknown}")
        client.poll()
        if identity := client.generation_without_callback():
            membership.unchanged(identity)
        membership.forget_what_was_taken()
        if join.commits == "each-poll":
            _commit(client, membership)


def _commit(client: GroupClient, membership: Membership) -> None:
    if offsets := membership.uncommitted():
        with membership.committing(offsets):
            client.commit(offsets)


def _commands() -> "queue.SimpleQueue[dict[str, Any]]":
    """Returns the queue of the commands on stdin, with a command to end after the last."""
    commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            commands.put(json.loads(line))
        commands.put({"do": "end"})

    threading.Thread(target=read, daemon=True).start()
    return commands


def _runs(offsets: list[int]) -> Iterator[tuple[int, int]]:
    """Yields the first and last offset of each run without a gap."""
    first = last = offsets[0]
    for offset in offsets[1:]:
        if offset != last + 1:
            yield first, last
            first = offset
        last = offset
    yield first, last
