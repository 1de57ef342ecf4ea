"""What real clients plan as leaders of groups whose other members are scripted, against our plans of the same groups.

KCOORD_TEST_LED sets how many rounds each client leads with each strategy, KCOORD_TEST_SEED the seed of the groups.
"""

import os
import random
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from kcoord.assignors.libraries.table import LIBRARIES
from kcoord.assignors.plan import AssignorFailed, Topics
from kcoord.protocol.consumer_protocol import read_assignment
from kcoord.testing.embedded import EmbeddedCluster
from tests.assignors.libraries.library_cases import Sets, Verdict, as_sets, compare
from tests.clients.group_members.member import Join
from tests.clients.group_members.programs import Programs
from tests.integration.leaders.followers import Followers, LeaderGone
from tests.integration.leaders.leader_relay import RACKS, LeaderRelay, Led, ReplicaRacks
from tests.integration.support.group_member import Member

ROUNDS: Final = int(os.environ.get("KCOORD_TEST_LED", "40"))
SEED: Final = int(os.environ.get("KCOORD_TEST_SEED", "1"))
TOPICS: Final = {"a": 5, "b": 1, "c": 7, "d": 12, "e": 5}
LONG_MS: Final = 180_000
PROGRAMS: Final = {"confluent-kafka": "librdkafka", "franz-go": "franz-go", "kafka-python": "kafka-python"}
CASES: Final = [
    (client, strategy) for client, library in PROGRAMS.items() for strategy in LIBRARIES[library].strategies
]
COMPARED: Final = 0.5
"""The share of rebalances in which the client's plan must have been compared with ours. Where partitions are claimed
twice, the table of libraries promises nothing of some plans."""
MIXED: Final = {("kafka-python", "roundrobin"): 0.05}
"""How often members are subscribed to different topics, if not every second time: kafka-python's round robin fails
then, and a leader has to start again."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    settings = {"auto.create.topics.enable": "false", "group.min.session.timeout.ms": "500"}
    with EmbeddedCluster(topics=TOPICS, settings=settings) as cluster:
        yield cluster


@pytest.mark.parametrize(("client", "strategy"), CASES)
def test_a_leader_plans_as_we_say(
    cluster: EmbeddedCluster, member_programs: Programs, client: str, strategy: str
) -> None:
    library = PROGRAMS[client]
    led: list[Led] = []
    while len(led) < ROUNDS:
        led += lead(cluster, member_programs, client, strategy, rounds=ROUNDS - len(led), seed=SEED + len(led))
    verdicts = [verdict(library, each) for each in led]
    different = [each for each, found in zip(led, verdicts, strict=True) if found is Verdict.OTHER]
    assert not different, f"{len(different)} of {len(led)} plans are others, the first is {different[0]}"
    counts = Counter(verdicts)
    assert counts[Verdict.SAME] + counts[Verdict.AS_GOOD] >= COMPARED * len(led), counts


def lead(
    cluster: EmbeddedCluster, programs: Programs, client: str, strategy: str, *, rounds: int, seed: int
) -> list[Led]:
    """Has a real client lead a group for so many rounds; returns all rebalances that it has led. If the client ends by
    itself, the last one is that in which it did."""
    group = f"{client}-{strategy}-{secrets.token_hex(2)}"
    with LeaderRelay(cluster.bootstrap) as relay:
        config = Join(
            bootstrap=relay.bootstrap,
            group=group,
            topics=list(TOPICS),
            client_id="leader",
            assignor=strategy,
            instance_id=None,
            session_timeout_ms=LONG_MS,
            heartbeat_interval_ms=50,
            max_poll_interval_ms=LONG_MS,
            metadata_max_age_ms=LONG_MS,
            commits="when-told",
        )
        leader = Member(programs, client=client, name="leader", config=config)
        followers = Followers(
            cluster.bootstrap,
            group=group,
            strategy=strategy,
            topics=TOPICS,
            seed=seed,
            mixed=MIXED.get((client, strategy), 0.5),
            prefixes=client == "kafka-python",
            is_led=lambda: leader.is_running,
        )
        try:
            leader.join()
            wait_until_led(relay, leader)
            rng = random.Random(seed)
            for _ in range(rounds):
                relay.racks = replica_racks(rng)
                followers.play_round()
        except LeaderGone:
            return [*relay.led, *relay.unanswered()]
        finally:
            followers.close()
            leader.stop()
        return relay.led


def replica_racks(rng: random.Random) -> ReplicaRacks:
    """Chooses the racks of replicas: all of them for each partition, or different ones."""
    least = rng.choice([0, 1, 1, len(RACKS)])
    return {
        topic: [rng.sample(list(RACKS), rng.randint(least, len(RACKS))) for _ in range(count)]
        for topic, count in TOPICS.items()
    }


def wait_until_led(relay: LeaderRelay, leader: Member) -> None:
    deadline = time.monotonic() + 60
    while not relay.led:
        assert leader.is_running, leader.last_output()
        assert time.monotonic() < deadline, f"{leader} does not lead\n{leader.last_output()}"
        time.sleep(0.02)


def verdict(library: str, led: Led) -> Verdict:
    """Compares our plan with the client's."""
    strategy = LIBRARIES[library].strategies[led.strategy]
    members = [
        strategy.subscriber(each.member_id, each.subscription, instance_id=each.instance_id) for each in led.members
    ]
    ours: Sets | str
    try:
        ours = as_sets(strategy.assign(members, Topics(counts=TOPICS, racks=led.racks)))
    except AssignorFailed as failed:
        ours = str(failed)
    if led.assignments is None:
        return compare(library, led.strategy, members, ours, "the client ended")
    theirs: Sets = {each.member_id: {} for each in members}
    theirs |= {
        member_id: {topic: set(numbers) for topic, numbers in read_assignment(each).items() if numbers}
        for member_id, each in led.assignments.items()
    }
    return compare(library, led.strategy, members, ours, [theirs])
