"""A group whose coordinator may be gone for a while; the topic and the offsets survive any one broker."""

import secrets
import time
from collections.abc import Callable
from typing import Final, Self, TypeVar

from confluent_kafka import ElectionType
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its types do not export it

from tests.clients.group_members.member import Join
from tests.clients.group_members.programs import Programs
from tests.integration.support import group_ledger as ledger
from tests.integration.support.group_coordinator import CoordinatorView, Described
from tests.integration.support.group_ledger import Plan
from tests.integration.support.group_member import Member
from tests.integration.support.group_writer import Writer

T = TypeVar("T")

PARTITIONS: Final = 6
CLIENTS: Final = ("confluent-kafka", "java", "franz-go")
WAIT: Final = 120.0
LONG: Final = 180_000  # no session expires during a test


def coordinated_by(bootstrap: str, node_id: int) -> str:
    """Returns a group id that belongs to this broker: a restarted broker leads nothing until it is elected again."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    view = CoordinatorView(bootstrap)
    deadline = time.monotonic() + WAIT
    try:
        while True:
            names = [f"crew-{secrets.token_hex(3)}" for _ in range(100)]
            coordinated = [name for name in names if view.coordinator_id(name) == node_id]
            if coordinated:
                return coordinated[0]
            assert time.monotonic() < deadline, f"broker {node_id} coordinates nothing"
            admin.elect_leaders(ElectionType.PREFERRED, None).result(WAIT)
            time.sleep(0.5)
    finally:
        view.close()


class Crew:
    """A group and its members, as a context manager. The first member works in the foreground, so that a rebalance
    waits for it while it pauses."""

    def __init__(self, bootstrap: str, group: str, programs: Programs) -> None:
        self.group = group
        self._bootstrap = bootstrap
        topic = f"{group}-records"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(WAIT)
        self._partitions = frozenset(f"{topic}-{index}" for index in range(PARTITIONS))
        self._writer = Writer(bootstrap)
        self._writer.write_to(topic, PARTITIONS)
        self.members = [
            Member(programs, client=client, name=client, config=_join_config(bootstrap, group, topic, client))
            for client in CLIENTS
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        self._writer.close()
        for member in self.members:
            member.stop()

    def state(self) -> str:
        """The group's state; empty while no coordinator answers."""
        described = self._described()
        return described.state if described else ""

    def wait_until_stable(self, *members: Member) -> Plan:
        """Waits until the current coordinator and these members report the same complete plan."""

        def agreed_plan() -> Plan | None:
            described = self._described()
            if described is None or described.state != "Stable":
                return None
            reported = {member.member_id: member.owned for member in members}
            is_whole = frozenset().union(*reported.values()) == self._partitions
            return reported if is_whole and reported == described.assignments else None

        return self.wait_for(agreed_plan, "the group to settle")

    def wait_for(self, find: Callable[[], T | None], what: str) -> T:
        deadline = time.monotonic() + WAIT
        while not (found := find()):
            reports = [(str(member), [str(each) for each in _news(member)]) for member in self.members]
            assert time.monotonic() < deadline, (
                f"waited in vain for {what} of {self.group}: {self._described()} {reports}"
            )
            time.sleep(0.05)
        return found

    def conclude(self) -> None:
        """Asserts that no record was lost, and no partition owned twice."""
        ends = self._writer.finish()
        self.wait_for(lambda: not ledger.unread(self.members, ends), "every record to be read")
        self.wait_for(lambda: self._committed() == ends, f"everything to be committed: {ends}")
        ledger.assert_nobody_owned_twice(self.members)
        ledger.assert_generations_grew(self.members)
        ledger.assert_read_by_owners(self.members)

    def _described(self) -> Described | None:
        return self._ask(lambda view: view.describe(self.group))

    def _committed(self) -> dict[str, int] | None:
        return self._ask(lambda view: view.committed(self.group))

    def _ask(self, ask: Callable[[CoordinatorView], T]) -> T | None:
        """Returns None while the coordinator is gone, or still loads."""
        try:
            view = CoordinatorView(self._bootstrap)
        except ConnectionError:
            return None
        try:
            return ask(view) if view.is_ready(self.group) else None
        except ConnectionError:
            return None
        finally:
            view.close()


def _join_config(bootstrap: str, group: str, topic: str, name: str) -> Join:
    return Join(
        bootstrap=bootstrap,
        group=group,
        topics=[topic],
        client_id=name,
        assignor="range",
        instance_id=None,
        session_timeout_ms=LONG,
        heartbeat_interval_ms=200,
        max_poll_interval_ms=LONG,
        metadata_max_age_ms=2000,
        commits="each-poll",
    )


def _news(member: Member) -> list[object]:
    return [event for event in member.events() if event.kind not in ("read", "committed")]
