"""The five states of a classic group, what may follow each, and what every request gets in it.

| request       | Empty        | PreparingRebalance  | CompletingRebalance      | Stable                     | Dead |
|---------------|--------------|---------------------|--------------------------|----------------------------|------|
| Join, new *   | begins a     | waits with the      | begins another           | begins a rebalance         | CNA  |
|               | rebalance    | others              | rebalance                |                            |      |
| Join, static  | –            | waits with the      | begins another           | same protocol as before:   | CNA  |
| that is back  |              | others              | rebalance                | the generation, at once;   |      |
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
| Delete offset | NONE         | protocol type "consumer": of topics that no member subscribes to;   | GNF  |
|               |              | other types: NON_EMPTY_GROUP                                          |      |
| Delete group  | NONE         | NON_EMPTY_GROUP     | NON_EMPTY_GROUP          | NON_EMPTY_GROUP            | GNF  |

UMI is UNKNOWN_MEMBER_ID, RIP is REBALANCE_IN_PROGRESS, CNA is COORDINATOR_NOT_AVAILABLE, GNF is GROUP_ID_NOT_FOUND.
Fencing comes before all of it.
*  A dynamic member that knows of KIP-394 first gets MEMBER_ID_REQUIRED and an id, which changes nothing yet.
** An id that was given out and not used yet is let go: NONE.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Named as Kafka's ListGroups and DescribeGroups name them."""

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
