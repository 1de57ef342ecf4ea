"""What was acknowledged to the writers, and what else may have happened.

Everything that can be read again is a register: a committed offset, the members of a group, a topic. Each belongs to
one writer, which requests one change after the other, in order:

    acknowledged ─ requested ─ requested ─ requested
         │            └────────────┴───────────┴─ not answered: the process died, or the disk failed. May have happened
         └─ must have happened

So a register may be found as what was acknowledged last, or as any of what was requested since; never as anything
before. From then on only what was found is possible.

Logs are shared by writers. A batch is recognized by its bytes: each is unlike all others.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T", bound=Hashable)

STAMPED = 16
"""The first bytes of a batch, which the server sets: the offset, and behind the length the leader's epoch."""


class Register(Generic[T]):
    """The possible values of one thing."""

    __slots__ = ("_asked", "_possible")

    def __init__(self, value: T) -> None:
        self._possible: list[tuple[int, T]] = [(0, value)]
        self._asked = 0

    def ask(self, value: T) -> int:
        """Notes a requested value, and returns a number by which it is acknowledged."""
        self._asked += 1
        self._possible.append((self._asked, value))
        return self._asked

    def acknowledge(self, asked: int) -> None:
        """Notes that a request has happened, which rules out all values before it."""
        self._possible = [each for each in self._possible if each[0] >= asked]

    def resolve(self, found: T) -> None:
        """Notes the value that was found."""
        self._possible = [(self._asked, found)]

    @property
    def possible(self) -> list[T]:
        return [value for _, value in self._possible]

    @property
    def is_sure(self) -> bool:
        return len(self._possible) == 1

    @property
    def acknowledged(self) -> T:
        return self._possible[0][1]

    @property
    def last(self) -> T:
        """The value if all requests have happened."""
        return self._possible[-1][1]


@dataclass(frozen=True, slots=True)
class Committed:
    offset: int
    leader_epoch: int
    text: str

    def __repr__(self) -> str:
        return f"{self.offset} (epoch {self.leader_epoch}, {self.text[:10]!r})"


@dataclass(frozen=True, slots=True)
class Generation:
    """The members of a group that was acknowledged as Stable, or as left by all; and the assignment of each."""

    number: int
    assignments: frozenset[tuple[str, bytes]] = frozenset()

    @property
    def member_ids(self) -> list[str]:
        return sorted(member_id for member_id, _ in self.assignments)


@dataclass(frozen=True, slots=True)
class TopicShape:
    partitions: int
    retention_ms: int


@dataclass(slots=True)
class Promise:
    """One change of some registers."""

    parts: list[tuple[Register[Any], int]] = field(default_factory=list)

    def acknowledge(self) -> None:
        """Notes that the change was acknowledged."""
        for register, asked in self.parts:
            register.acknowledge(asked)


class GroupPage:
    """The possible states of one group."""

    def __init__(self) -> None:
        self.is_deleted = Register(True)  # Starts as deleted; a group without offsets and members may exist or not.
        self.generation: Register[Generation | None] = Register(None)
        self.offsets: dict[tuple[str, int], Register[Committed | None]] = {}

    def commit(self, topic: str, commits: Mapping[int, Committed]) -> Promise:
        promise = Promise([self._asked(topic, partition, committed) for partition, committed in commits.items()])
        return self._with_life(promise)

    def delete_offsets(self, topic: str, partitions: Iterable[int]) -> Promise:
        return Promise([self._asked(topic, partition, None) for partition in partitions])

    def join(self) -> None:
        """Notes a join: the group exists, and its members are known once it has a plan for them."""
        self._with_life(Promise())

    def move_to(self, generation: Generation) -> Promise:
        return self._with_life(Promise([(self.generation, self.generation.ask(generation))]))

    def delete(self) -> Promise:
        parts: list[tuple[Register[Any], int]] = [(each, each.ask(None)) for each in self.offsets.values()]
        parts.append((self.generation, self.generation.ask(None)))
        return Promise([*parts, (self.is_deleted, self.is_deleted.ask(True))])

    def _with_life(self, promise: Promise) -> Promise:
        promise.parts.append((self.is_deleted, self.is_deleted.ask(False)))
        return promise

    def _asked(self, topic: str, partition: int, value: Committed | None) -> tuple[Register[Committed | None], int]:
        register = self.offsets.setdefault((topic, partition), Register(None))
        return register, register.ask(value)


class LogPage:
    """The batches of one partition, acknowledged or requested."""

    def __init__(self) -> None:
        self._offsets: dict[bytes, int] = {}  # Batches that must be in the log.
        self._asked: dict[bytes, None] = {}  # Batches that may be in it.

    def ask(self, batch: bytes) -> None:
        if batch[STAMPED:] not in self._offsets:
            self._asked[batch[STAMPED:]] = None

    def acknowledge(self, batch: bytes, offset: int) -> str | None:
        """Notes that the server has acknowledged a batch. Returns what is wrong if that is impossible."""
        body = batch[STAMPED:]
        self._asked.pop(body, None)
        known = self._offsets.setdefault(body, offset)
        return None if known == offset else f"is at {known}, and was acknowledged once more at {offset}"

    def has(self, batch: bytes) -> bool:
        """Returns whether the batch must be in the log."""
        return batch[STAMPED:] in self._offsets

    def resolve(self, found: Iterable[tuple[int, bytes]]) -> Iterator[str]:
        """Compares a log's batches with the ledger and yields what is wrong. Requested batches are resolved by it."""
        seen: dict[bytes, int] = {}
        for offset, batch in found:
            body = bytes(batch[STAMPED:])
            if body in seen:
                yield f"the batch at {seen[body]} is there again at {offset}"
            elif body in self._offsets:
                if self._offsets[body] != offset:
                    yield f"the batch that was acknowledged at {self._offsets[body]} is at {offset}"
            elif body not in self._asked:
                yield f"the batch at {offset} was asked for by nobody"
            seen.setdefault(body, offset)
        for body, offset in self._offsets.items():
            if body not in seen:
                yield f"the batch that was acknowledged at {offset} is missing"
        self._offsets = seen
        self._asked = {}


class Ledger:
    def __init__(self) -> None:
        self.groups: dict[str, GroupPage] = {}
        self.topics: dict[str, Register[TopicShape | None]] = {}
        self.logs: dict[tuple[str, int], LogPage] = {}

    def group(self, group_id: str) -> GroupPage:
        return self.groups.setdefault(group_id, GroupPage())

    def topic(self, name: str) -> Register[TopicShape | None]:
        return self.topics.setdefault(name, Register(None))

    def log(self, topic: str, partition: int) -> LogPage:
        return self.logs.setdefault((topic, partition), LogPage())

    def forget_logs(self, topic: str) -> None:
        """Forgets the logs of a topic that was deleted."""
        for partition in [partition for partition in self.logs if partition[0] == topic]:
            del self.logs[partition]
