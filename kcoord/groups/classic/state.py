"""The five states of a classic group, which state may follow each, and what every request gets in it.

| request       | Empty        | PreparingRebalance  | CompletingRebalance      | Stable                     | Dead |
|---------------|--------------|---------------------|--------------------------|----------------------------|------|
| Join, new *   | begins a     | waits with the      | begins another           | begins a rebalance         | CNA  |
|               | rebalance    | others              | rebalance                |                            |      |
| Join, static, | –            | waits with the      | begins another           | same protocol as before:   | CNA  |
| returned      |              | others              | rebalance                | the generation, at once;   |      |
|               |              |                     |                          | else begins a rebalance    |      |
| Join, member  | UMI          | waits with the      | same subscription: the   | leader, new subscription:  | CNA  |
|               |              | others              | same answer again; new:  | begins a rebalance; else   |      |
|               |              |                     | another rebalance        | the generation, at once    |      |
| Sync          | UMI          | RIP                 | follower waits; the      | its assignment, at once    | CNA  |
|               |              |                     | leader's plan ends it    |                            |      |
| Heartbeat     | UMI          | RIP                 | NONE                     | NONE                       | CNA  |
| Leave **      | UMI          | NONE                | NONE, another rebalance  | NONE, begins a rebalance   | CNA  |
| Commit        | NONE without | NONE                | RIP                      | NONE                       | CNA  |
|               | member: else |                     |                          |                            |      |
|               | UMI          |                     |                          |                            |      |
| Fetch offsets | the offsets  | the offsets         | the offsets              | the offsets                | none |
| Delete offset | NONE         | protocol type "consumer": only of topics without subscribers;       | GNF  |
|               |              | other types: NON_EMPTY_GROUP                                        |      |
| Delete group  | NONE         | NON_EMPTY_GROUP     | NON_EMPTY_GROUP          | NON_EMPTY_GROUP            | GNF  |

UMI is UNKNOWN_MEMBER_ID, RIP is REBALANCE_IN_PROGRESS, CNA is COORDINATOR_NOT_AVAILABLE, GNF is GROUP_ID_NOT_FOUND.
Fencing comes first in every state.
*  A dynamic member that knows KIP-394 first gets MEMBER_ID_REQUIRED and an id, which changes nothing yet.
** A member id that was issued and not used yet is dropped: NONE.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class State(StrEnum):
    """The states of a classic group, under the names that ListGroups and DescribeGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


MAY_FOLLOW: Final[Mapping[State, frozenset[State]]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.PREPARING_REBALANCE: frozenset({State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD}),
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE, State.DEAD}),
    State.STABLE: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.DEAD: frozenset({State.DEAD}),
}
