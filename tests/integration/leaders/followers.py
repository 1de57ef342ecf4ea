"""The members of a group that a real client leads: scripted, seeded, and each with a connection of its own."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from kcoord.api_keys import ApiKey
from kcoord.assignors.plan import TopicPartitions
from kcoord.client.client import Client
from kcoord.client.connect_errors import NoAnswer
from kcoord.errors import ErrorCode
from kcoord.protocol.consumer_protocol import (
    OwnedPartitions,
    Subscription,
    read_assignment,
    write_cooperative_user_data,
    write_sticky_user_data,
    write_subscription,
)

MEMBER_RACKS: Final = ("r1", "r2", "r3", "elsewhere", None)
LONG: Final = timedelta(minutes=3)
MOST: Final = 7
TIMEOUT: Final = 30.0
POLL: Final = 0.5
PAUSE: Final = 0.01


class LeaderGone(Exception):
    """The leader has ended by itself."""


class Follower:
    """One scripted member."""

    def __init__(self, endpoint: tuple[str, int], group: str, strategy: str, rng: random.Random) -> None:
        self._rng = rng
        self._strategy = strategy
        self._group = group
        name = rng.choice(["consumer", "app", "zebra"])
        self._client = Client(*endpoint, client_id=f"{name}{rng.randint(0, 99)}", timeout=POLL)
        self.instance_id = f"{rng.choice('abyz')}{rng.getrandbits(32):08x}" if rng.random() < 0.3 else None
        self._version = 5 if self.instance_id else 3
        self._member_id = ""
        self._generation = -1
        self.owned: TopicPartitions = {}
        self._joins = 0

    def start_join(
        self,
        topics: Sequence[str],
        owned: TopicPartitions,
        generation: int | None,
        *,
        rack: str | None,
        prefix: bytes,
    ) -> None:
        """Sends a JoinGroup; its response comes when all members have joined."""
        self._joins += 1
        # Each subscription differs in what its leader does not read: a member whose subscription is the same as before
        # is answered at once, with the generation that there is.
        content = _subscription(self._strategy, topics, owned, generation, rack, prefix, differs=self._joins)
        self._client.send(
            ApiKey.JOIN_GROUP,
            self._version,
            group_id=self._group,
            member_id=self._member_id,
            **({"group_instance_id": self.instance_id} if self.instance_id else {}),
            protocol_type="consumer",
            protocols=[{"name": self._strategy, "metadata": content}],
            session_timeout=LONG,
            rebalance_timeout=LONG,
        )

    def end_join(self, is_led: Callable[[], bool]) -> None:
        response = self._receive(ApiKey.JOIN_GROUP, self._version, is_led)
        assert not response.error_code, response
        self._member_id, self._generation = response.member_id, response.generation_id

    def start_sync(self) -> None:
        self._client.send(
            ApiKey.SYNC_GROUP,
            2,
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            assignments=(),
        )

    def end_sync(self, is_led: Callable[[], bool]) -> None:
        """Takes the assignment, unless the leader has begun another rebalance already."""
        response = self._receive(ApiKey.SYNC_GROUP, 2, is_led)
        if response.error_code is not ErrorCode.rebalance_in_progress:
            assert not response.error_code, response
            self.owned = read_assignment(bytes(response.assignment))

    def leave(self) -> None:
        self._client.ask(ApiKey.LEAVE_GROUP, 2, group_id=self._group, member_id=self._member_id)
        self.hang_up()

    def hang_up(self) -> None:
        self._client.close()

    @property
    def generation(self) -> int:
        return self._generation

    def _receive(self, api_key: int, version: int, is_led: Callable[[], bool]) -> Any:
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                return self._client.receive(api_key, version)
            except NoAnswer:
                if not is_led():
                    raise LeaderGone from None
                assert time.monotonic() < deadline, "the group does not come to rest"


def _subscription(
    strategy: str,
    topics: Sequence[str],
    owned: TopicPartitions,
    generation: int | None,
    rack: str | None,
    prefix: bytes,
    *,
    differs: int,
) -> bytes:
    unread = write_cooperative_user_data(differs)
    match strategy:
        case "cooperative-sticky":
            written = Subscription(topics=topics, user_data=unread, owned=owned, generation=generation, rack=rack)
            return write_subscription(written, version=3)
        case "sticky":
            user_data = prefix + write_sticky_user_data(OwnedPartitions(owned=owned, generation=generation))
            written = Subscription(topics=topics, user_data=user_data, owned={"unread": [differs]})
            return write_subscription(written, version=1)
        case _:
            return write_subscription(Subscription(topics=topics, user_data=unread, rack=rack), version=3)


class Followers:
    """All scripted members of a group. In each round some come and go, and all others join again."""

    def __init__(
        self,
        bootstrap: str,
        *,
        group: str,
        strategy: str,
        topics: Mapping[str, int],
        seed: int,
        mixed: float,
        prefixes: bool,
        is_led: Callable[[], bool],
    ) -> None:
        """`mixed` is how often members are subscribed to different topics, `prefixes` whether some write sticky user
        data as kafka-python does. `is_led` says whether the leader's process runs."""
        host, _, port = bootstrap.rpartition(":")
        self._endpoint = host, int(port)
        self._group, self._strategy, self._topics = group, strategy, topics
        self._rng = random.Random(f"{strategy} {seed}")
        self._mixed, self._prefixes, self._is_led = mixed, prefixes, is_led
        self._racks: Sequence[str | None] = (None,)
        self._members: list[Follower] = []
        self._has_false_claims = False
        self._admin = Client(*self._endpoint)

    def play_round(self) -> None:
        """Changes the group, and takes part in the rebalance. In every second round members may be in racks."""
        rng = self._rng
        has_same_topics = rng.random() >= self._mixed
        self._has_false_claims = rng.random() < 0.2
        self._racks = MEMBER_RACKS if rng.random() < 0.5 else (None,)
        for each in [each for each in self._members[1:] if rng.random() < 0.2]:
            self._members.remove(each)
            each.leave()
        stay = list(self._members)
        while len(self._members) < MOST and (not self._members or (stay and rng.random() < 0.5)):
            self._members.append(Follower(self._endpoint, self._group, self._strategy, rng))
        new = self._members[len(stay) :]
        # The rebalance cannot complete before those that stay have joined, so that the new ones are in it.
        self._start_joins(new, has_same_topics=has_same_topics)
        self._wait_until_all_have_joined()
        self._start_joins(stay, has_same_topics=has_same_topics)
        for each in self._members:
            each.end_join(self._is_led)
        for each in self._members:
            each.start_sync()
        for each in self._members:
            each.end_sync(self._is_led)

    def close(self) -> None:
        for each in self._members:
            each.hang_up()
        self._admin.close()

    def _wait_until_all_have_joined(self) -> None:
        deadline = time.monotonic() + TIMEOUT
        while len(self._described().members) < 1 + len(self._members):
            if not self._is_led():
                raise LeaderGone
            assert time.monotonic() < deadline, "not all new members have joined"
            time.sleep(PAUSE)

    def _described(self) -> Any:
        (group,) = self._admin.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=[self._group]).groups
        return group

    def _start_joins(self, members: Sequence[Follower], *, has_same_topics: bool) -> None:
        rng = self._rng
        for each in members:
            topics = [topic for topic in self._topics if has_same_topics or rng.random() < 0.6]
            rng.shuffle(topics)
            self._join(each, topics or [rng.choice(list(self._topics))])

    def _join(self, each: Follower, topics: Sequence[str]) -> None:
        """Joins with what the member has, or in some rounds with other claims. These rounds are few, as the plans of a
        group in which two members claim the same partition need not have anything in common."""
        rng = self._rng
        owned, generation = each.owned, each.generation
        if self._has_false_claims and rng.random() < 0.4:
            owned = {
                topic: sorted(rng.sample(range(count), rng.randint(1, count)))
                for topic, count in self._topics.items()
                if rng.random() < 0.5
            }
        if rng.random() < 0.15:
            generation -= rng.randint(1, 3)
        prefix = b"\0\1" if self._prefixes and rng.random() < 0.7 else b""
        each.start_join(topics, owned, max(generation, 0), rack=rng.choice(self._racks), prefix=prefix)
