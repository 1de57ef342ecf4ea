"""One member of a classic group."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kcoord.groups.deadlines import Deadline
from kcoord.tickets import Ticket

if TYPE_CHECKING:
    from kcoord.groups.offsets.committing import UsualCommit

Protocols = tuple[tuple[str, bytes], ...]
"""Names in the order of preference, each with the subscription that belongs to it."""


class Holder(NamedTuple):
    """Who asks: what it makes here counts as its own (held.py)."""

    principal: str  # that has logged in; empty if nobody does
    host: str
    client_id: str


@dataclass(slots=True, kw_only=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: Protocols
    session: Deadline
    assignment: bytes = b""
    is_new: bool = False  # it has not yet been told its id by a finished join
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None
    usual_commit: "UsualCommit | None" = None
    principal: str = ""  # that it has logged in as; not known of one that was found in the log
    held_bytes: int = 0  # of its names and subscriptions, as its group has counted them

    @property
    def holder(self) -> Holder:
        return Holder(self.principal, self.client_host, self.client_id)

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_parked(self) -> bool:
        return self.join_ticket is not None or self.sync_ticket is not None

    @property
    def may_be_silent(self) -> bool:
        """A request of it waits here, so that it need not send heartbeats. New members are given a limit all the same:
        one that hung up and asked again would otherwise be there twice for ever."""
        return self.is_parked and not self.is_new

    def subscription(self, protocol: str | None) -> bytes:
        """The bytes that belong to the protocol; none if it is not one of the member's."""
        for name, subscription in self.protocols:
            if name == protocol:
                return subscription
        return b""
