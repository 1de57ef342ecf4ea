"""Everything that goes wrong, until calm comes."""

from collections.abc import Callable
from typing import Any, Final

from kcoord.groups.coordinator import Coordinator
from kcoord.groups.requests import (
    Commit,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    Heartbeat,
    Join,
    Leave,
    LeavingMember,
    ListGroups,
    Sync,
    TopicPartitions,
)
from tests.simulation.crowd import Crowd
from tests.simulation.environment import Environment
from tests.simulation.ledger import INTRUDER
from tests.simulation.link import Call
from tests.simulation.server import TOPICS, Server
from tests.support.groups.commits import Line, commit_of

EVERY: Final = 2.0  # seconds, on average


class Trouble:
    def __init__(self, environment: Environment, server: Server, crowd: Crowd) -> None:
        self._environment = environment
        self._server = server
        self._crowd = crowd
        self._kinds: dict[Callable[[], None], int] = {
            server.drop_some_link: 5,
            server.crash: 1,
            server.expire_offsets: 1,
            server.begin_compaction: 3,
            self._make_topic_anew: 1,
            self._end_somebody: 3,
            self._end_everybody: 1,
            self._send_somebody_away: 2,
            self._put_somebody_to_sleep: 3,
            self._start_somebody_twice: 2,
            self._change_a_subscription: 2,
            self._operate: 3,
            self._intrude: 6,
        }
        self._later()

    def _later(self) -> None:
        self._environment.later(self._environment.rng.expovariate(1 / EVERY), self._come)

    def _come(self) -> None:
        if self._environment.is_calm:
            return
        kinds = list(self._kinds)
        (kind,) = self._environment.rng.choices(kinds, [self._kinds[each] for each in kinds])
        self._environment.note("trouble", kind.__name__)
        kind()
        self._later()

    # With consumers.

    def _end_somebody(self) -> None:
        self._crowd.somebody().end()

    def _end_everybody(self) -> None:
        pause = self._environment.rng.uniform(10, 30)
        self._crowd.end_all(pause)
        for _ in range(3):
            self._environment.later(self._environment.rng.uniform(0, pause), self._operate)
            self._environment.later(self._environment.rng.uniform(0, pause), self._intrude)

    def _send_somebody_away(self) -> None:
        self._crowd.somebody().leave()

    def _put_somebody_to_sleep(self) -> None:
        self._crowd.somebody().sleep(self._environment.rng.uniform(1, 25))

    def _start_somebody_twice(self) -> None:
        somebody = self._crowd.somebody()
        if somebody.is_alive and somebody.traits.instance_id is not None:
            self._crowd.start_duplicate(somebody)

    def _change_a_subscription(self) -> None:
        self._crowd.somebody().subscribe(self._crowd.topics())

    # With topics and operators.

    def _make_topic_anew(self) -> None:
        self._server.make_topic_anew(self._environment.rng.choice(list(TOPICS)))

    def _operate(self) -> None:
        group_id = self._crowd.somebody().traits.group_id
        instance_id = self._crowd.somebody().traits.instance_id
        topics = tuple(TopicPartitions(name=topic, topic_id=None, partitions=(0, 1, 99)) for topic in TOPICS)
        choices: list[tuple[Callable[..., Any], object]] = [
            (Coordinator.list_groups, ListGroups()),
            (Coordinator.describe_groups, DescribeGroups(group_ids=("nobody's", group_id))),
            (Coordinator.delete_groups, DeleteGroups(group_ids=("nobody's", group_id))),
            (Coordinator.delete_offsets, DeleteOffsets(group_id=group_id, topics=topics)),
            (
                Coordinator.leave,
                Leave(group_id=group_id, members=(LeavingMember(member_id="", instance_id=instance_id),)),
            ),
        ]
        self._send("operator", group_id, choices)

    # With intruders.

    def _intrude(self) -> None:
        victim = self._crowd.somebody()
        group_id, member_id = victim.traits.group_id, self._environment.rng.choice([victim.member_id, "stranger", ""])
        stale = victim.generation + self._environment.rng.choice([-1, 1])  # unless the group has moved on, or back
        choices: list[tuple[Callable[..., Any], object]] = [
            (Coordinator.heartbeat, _heartbeat(group_id, member_id, stale)),
            (Coordinator.sync, _sync(group_id, member_id, stale)),
            (Coordinator.commit, _commit(group_id, member_id, stale)),
            (Coordinator.commit, _commit(group_id, "", -1)),
            (Coordinator.join, _join(group_id, member_id, "connect", 10.0)),
            (Coordinator.join, _join(group_id, "", "consumer", 1.0)),
            (Coordinator.join, _join(group_id, "stranger", "consumer", 10.0)),
        ]
        self._send(INTRUDER, group_id, choices)

    def _send(self, who: str, group_id: str, choices: list[tuple[Callable[..., Any], object]]) -> None:
        decide, request = self._environment.rng.choice(choices)
        link = self._server.connect(self._server.node_of(group_id), lambda closed: None)
        link.send(Call(who=who, decide=decide, request=request, then=lambda reply: None))


def _heartbeat(group_id: str, member_id: str, generation: int) -> Heartbeat:
    return Heartbeat(group_id=group_id, member_id=member_id, instance_id=None, generation=generation)


def _sync(group_id: str, member_id: str, generation: int) -> Sync:
    plan = {member_id: b"orders-0"}
    return Sync(
        group_id=group_id,
        member_id=member_id,
        instance_id=None,
        generation=generation,
        protocol_type=None,
        protocol=None,
        plan=plan,
    )


def _commit(group_id: str, member_id: str, generation: int) -> Commit:
    lines = [Line(partition, 7) for partition in (0, 99)]
    return commit_of([("orders", lines)], group_id=group_id, member_id=member_id, generation=generation)


def _join(group_id: str, member_id: str, protocol_type: str, session_timeout: float) -> Join:
    return Join(
        group_id=group_id,
        member_id=member_id,
        instance_id=None,
        client_id=INTRUDER,
        client_host="/127.0.0.1",
        session_timeout=session_timeout,
        rebalance_timeout=5.0,
        protocol_type=protocol_type,
        protocols=(("range", b""),),
    )
