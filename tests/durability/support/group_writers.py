"""Writers that commit offsets: without a group, and as members of groups that rebalance, lose members, empty and are
deleted.
"""

import time
from datetime import timedelta
from random import Random
from typing import Any, Final

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from tests.durability.support.ledger import Committed, Generation, GroupPage, Ledger, Promise
from tests.durability.support.writers import (
    PATIENCE,
    Read,
    Refusal,
    Surprise,
    Writer,
)

TOPIC: Final = "committed"
PARTITIONS: Final = 12
_AHEAD: Final = 6
_SESSION: Final = timedelta(minutes=20)
_LARGE: Final = 12_000  # Larger than what the server defers until the end of its round.
_REFUSED_BY_THEN: Final = 2.0
_GONE: Final = (ErrorCode.none, ErrorCode.group_id_not_found)
_NOBODY: Final = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}

Request = tuple[int, int, dict[str, Any], Read]


class Committer(Writer):
    """Commits to some groups as the given member, and deletes what was committed."""

    group_ids: tuple[str, ...]

    def commit(self, group_id: str, member: dict[str, Any] = _NOBODY) -> Request:
        count = self.random.choice((1, 1, 1, 3, PARTITIONS))
        commits = {partition: self._committed() for partition in self.random.sample(range(PARTITIONS), count)}
        promise = self.ledger.group(group_id).commit(TOPIC, commits)
        lines = [
            {
                "partition_index": partition,
                "committed_offset": committed.offset,
                "committed_leader_epoch": committed.leader_epoch,
                "committed_metadata": committed.text,
            }
            for partition, committed in commits.items()
        ]
        values = {"group_id": group_id, **member, "topics": [{"name": TOPIC, "partitions": lines}]}

        def read(answer: Any) -> None:
            for line in answer.topics[0].partitions:
                self.check(line.error_code, f"commit to {group_id}")
            self._acknowledge(promise)

        return ApiKey.OFFSET_COMMIT, self.random.choice((7, 8, 9)), values, read

    def delete_offsets(self, group_id: str) -> Request:
        partitions = self.random.sample(range(PARTITIONS), self.random.choice((1, 4)))
        promise = self.ledger.group(group_id).delete_offsets(TOPIC, partitions)
        asked = [{"partition_index": partition} for partition in partitions]

        def read(answer: Any) -> None:
            if answer.error_code is not ErrorCode.group_id_not_found:  # There is nothing to delete then.
                self.check(answer.error_code, f"delete offsets of {group_id}")
                for line in answer.topics[0].partitions:
                    self.check(line.error_code, f"delete offsets of {group_id}")
            self._acknowledge(promise)

        return ApiKey.OFFSET_DELETE, 0, {"group_id": group_id, "topics": [{"name": TOPIC, "partitions": asked}]}, read

    def delete(self, group_id: str) -> Request:
        promise = self.ledger.group(group_id).delete()

        def read(answer: Any) -> None:
            if answer.results[0].error_code not in _GONE:
                self.check(answer.results[0].error_code, f"delete {group_id}")
            self._acknowledge(promise)

        return ApiKey.DELETE_GROUPS, 2, {"groups_names": [group_id]}, read

    def _acknowledge(self, promise: Promise) -> None:
        promise.acknowledge()
        self.acknowledged += 1

    def _committed(self) -> Committed:
        text = self.random.choice(("", "", "", "a text", "x" * 3000))
        return Committed(self.fresh(), self.random.choice((-1, 0, 3)), text)


class Nobody(Committer):
    def __init__(self, name: str, ledger: Ledger, seed: int, **options: Any) -> None:
        super().__init__(name, ledger, seed, **options)
        self.group_ids = tuple(f"{name}-{number}" for number in range(8))

    def step(self) -> None:
        requests = [self._anything() for _ in range(self.random.randint(1, _AHEAD))]
        self.ask_all(requests)

    def _anything(self) -> Request:
        group_id, chance = self.random.choice(self.group_ids), self.random.random()
        if chance < 0.05:
            return self.delete(group_id)
        if chance < 0.15:
            return self.delete_offsets(group_id)
        return self.commit(group_id)


class Team:
    """A group whose members all belong to one writer. Each has its own connection, as a join waits for the others."""

    def __init__(self, group_id: str, page: GroupPage) -> None:
        self.group_id = group_id
        self.page = page
        self.member_ids: list[str] = []
        self.generation = 0

    def as_member(self, index: int) -> dict[str, Any]:
        return {"group_id": self.group_id, "member_id": self.member_ids[index], "group_instance_id": None}

    def read_page(self) -> None:
        """Takes the state from the ledger."""
        known = self.page.generation.acknowledged
        self.generation = known.number if known else 0
        found = known.member_ids if known else []
        self.member_ids = [each for each in self.member_ids if each in found]
        if set(self.member_ids) != set(found):
            self.member_ids = found  # It is not known which connection each member has.


class Members(Committer):
    connections = 3

    def __init__(self, name: str, ledger: Ledger, seed: int, **options: Any) -> None:
        super().__init__(name, ledger, seed, **options)
        self.group_ids = tuple(f"{name}-{number}" for number in range(3))
        self._teams = [Team(group_id, ledger.group(group_id)) for group_id in self.group_ids]

    def resume(self) -> None:
        for team in self._teams:
            team.read_page()

    def recover(self) -> None:
        """Makes all members leave, because it is unknown who is a member."""
        for team in self._teams:
            described = self.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=[team.group_id]).groups[0]
            self.check(described.error_code, f"describe {team.group_id}")
            team.member_ids = [member.member_id for member in described.members]
            if team.member_ids:
                self._leave(team, list(range(len(team.member_ids))))

    def step(self) -> None:
        team, chance = self.random.choice(self._teams), self.random.random()
        if not team.member_ids:
            if chance < 0.2:
                self.ask_all([self.delete(team.group_id)])
            elif chance < 0.4:
                self.ask_all([self.commit(team.group_id) for _ in range(self.random.randint(1, _AHEAD))])
            else:
                self._rebalance(team, newcomers=1)
        elif chance < 0.1:
            self._leave(team, list(range(len(team.member_ids))))
        elif chance < 0.15 and len(team.member_ids) > 1:
            self._leave(team, [len(team.member_ids) - 1])
            self._rebalance(team)
        elif chance < 0.3 and len(team.member_ids) < self.connections:
            self._rebalance(team, newcomers=1)
        elif chance < 0.4:
            self._rebalance(team)
        else:
            self._commit_as_members(team)

    def _commit_as_members(self, team: Team) -> None:
        requests = []
        for _ in range(self.random.randint(1, _AHEAD)):
            member = team.as_member(self.random.randrange(len(team.member_ids)))
            member["generation_id_or_member_epoch"] = team.generation
            requests.append(self.commit(team.group_id, member))
        self.ask_all(requests)

    def _rebalance(self, team: Team, newcomers: int = 0) -> None:
        """One member joins, which begins a rebalance; the others notice and join too; the leader sends the
        assignments.
        """
        team.member_ids += [""] * newcomers
        indexes = list(range(len(team.member_ids)))
        first = indexes[-1]
        team.page.join()
        self._send_join(team, first)
        for index in indexes[:-1]:
            self._wait_for_rebalance(team, index)
            self._send_join(team, index)
        joined = [self.clients[index].receive(ApiKey.JOIN_GROUP, 3) for index in indexes]
        for answer in joined:
            self.check(answer.error_code, f"join {team.group_id}")
        self._check_generation(team, [answer.generation_id for answer in joined])
        team.member_ids = [answer.member_id for answer in joined]
        team.generation = joined[0].generation_id
        self._sync(team, leader=team.member_ids.index(joined[0].leader))

    def _sync(self, team: Team, leader: int) -> None:
        assignments = {member_id: _bytes(self.random) for member_id in team.member_ids}
        generation = Generation(team.generation, frozenset(assignments.items()))
        promise = team.page.move_to(generation)
        plan = [{"member_id": member_id, "assignment": given} for member_id, given in assignments.items()]
        indexes = list(range(len(team.member_ids)))
        self.random.shuffle(indexes)
        for index in indexes:
            member = {**team.as_member(index), "generation_id": team.generation}
            self.clients[index].send(ApiKey.SYNC_GROUP, 3, **member, assignments=plan if index == leader else [])
        refusal = None
        for index in indexes:
            answer = self.clients[index].receive(ApiKey.SYNC_GROUP, 3)
            if answer.error_code is not ErrorCode.none:
                refusal = Refusal(f"sync {team.group_id}: {answer.error_code.name}")
                continue
            if answer.assignment != assignments[team.member_ids[index]]:
                raise Surprise(f"{team.group_id}: a member got what was meant for another")
            self._acknowledge(promise)
        if refusal:
            raise refusal

    def _leave(self, team: Team, indexes: list[int]) -> None:
        """Lets members leave. If nobody is left, that is a new generation too.

        Otherwise a new generation comes when the others have joined: if a coordinator dies before that, Kafka's too,
        the member is back after its restart.
        """
        leaving = [{"member_id": team.member_ids[index], "group_instance_id": None} for index in indexes]
        is_all = len(indexes) == len(team.member_ids)
        promise = team.page.move_to(Generation(_least(team))) if is_all else Promise()
        answer = self.ask(ApiKey.LEAVE_GROUP, 4, group_id=team.group_id, members=leaving)
        self.check(answer.error_code, f"leave {team.group_id}")
        for line in answer.members:
            self.check(line.error_code, f"leave {team.group_id}")
        self._acknowledge(promise)
        team.member_ids = [member_id for index, member_id in enumerate(team.member_ids) if index not in indexes]

    def _send_join(self, team: Team, index: int) -> None:
        self.clients[index].send(
            ApiKey.JOIN_GROUP,
            3,
            group_id=team.group_id,
            session_timeout=_SESSION,
            rebalance_timeout=_SESSION,
            member_id=team.member_ids[index],
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": f"{self.name} {self.fresh()} ".encode() + _bytes(self.random)}],
        )

    def _wait_for_rebalance(self, team: Team, index: int) -> None:
        """Waits until a heartbeat announces the rebalance, as clients do. If the first join was refused,
        there is none.
        """
        until = time.monotonic() + (_REFUSED_BY_THEN if self.is_patient else PATIENCE)
        while True:
            member = {**team.as_member(index), "generation_id": team.generation}
            answer = self.clients[index].ask(ApiKey.HEARTBEAT, 3, **member)
            if answer.error_code is ErrorCode.rebalance_in_progress:
                return
            self.check(answer.error_code, f"heartbeat of {team.group_id}")
            if time.monotonic() > until:
                raise Refusal(f"{team.group_id}: a member joins, and the others do not hear of it")

    def _check_generation(self, team: Team, numbers: list[int]) -> None:
        least = _least(team) if team.page.generation.is_sure else 0
        if len(set(numbers)) > 1 or numbers[0] <= least:
            raise Surprise(f"{team.group_id}: joined the generations {numbers} after {least}")


def _least(team: Team) -> int:
    """Returns the acknowledged generation."""
    known = team.page.generation.acknowledged
    return known.number if known else 0


def _bytes(random: Random) -> bytes:
    return random.randbytes(_LARGE if random.random() < 0.1 else random.randint(4, 200))
