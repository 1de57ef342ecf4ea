"""The table of strategies: the assignors of Kafka's consumers, and those of its group coordinator."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from kcoord.assignors.plan import Plan, Subscriber, Topics
from kcoord.assignors.range import assign_range
from kcoord.assignors.round_robin import assign_round_robin
from kcoord.assignors.server_side.range import assign_server_range
from kcoord.assignors.server_side.uniform import assign_uniform
from kcoord.assignors.sticky.cooperative import assign_cooperative
from kcoord.assignors.sticky.sticky import assign_sticky
from kcoord.assignors.subscriptions import OwnedFrom

Assign: TypeAlias = Callable[[Collection[Subscriber], Topics], Plan]
"""An assignor: returns the plan for these members and topics. Raises AssignorFailed where Kafka's class would throw."""


class RebalanceStyle(StrEnum):
    """What a member has to give up in a rebalance."""

    EAGER = "eager"
    """Everything, before it joins."""
    COOPERATIVE = "cooperative"
    """What moves, in a first rebalance; its new owner gets it in a second one."""
    INCREMENTAL = "incremental"
    """What moves, each member by itself, without a rebalance of the group (KIP-848)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """An assignor by its name. `owned_from` is None for server-side ones, which know what each member has."""

    name: str
    style: RebalanceStyle
    owned_from: OwnedFrom | None
    assign: Assign

    @property
    def is_server_side(self) -> bool:
        """Whether the coordinator of a consumer group plans by it, and not a member."""
        return self.owned_from is None


_TABLE: Final = (
    Strategy(name="range", style=RebalanceStyle.EAGER, owned_from=OwnedFrom.NOWHERE, assign=assign_range),
    Strategy(
        name="roundrobin",
        style=RebalanceStyle.EAGER,
        owned_from=OwnedFrom.NOWHERE,
        assign=assign_round_robin,
    ),
    Strategy(
        name="sticky",
        style=RebalanceStyle.EAGER,
        owned_from=OwnedFrom.STICKY_USER_DATA,
        assign=assign_sticky,
    ),
    Strategy(
        name="cooperative-sticky",
        style=RebalanceStyle.COOPERATIVE,
        owned_from=OwnedFrom.FIELDS,
        assign=assign_cooperative,
    ),
    Strategy(
        name="uniform",
        style=RebalanceStyle.INCREMENTAL,
        owned_from=None,
        assign=assign_uniform,
    ),
    Strategy(
        name="server-range",
        style=RebalanceStyle.INCREMENTAL,
        owned_from=None,
        assign=assign_server_range,
    ),
)
STRATEGIES: Final[Mapping[str, Strategy]] = {each.name: each for each in _TABLE}
"""All strategies, by the names that members vote for; the server-side range has a name of its own here."""
