"""One member of a classic group."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kcoord.groups.deadlines import Deadline
from kcoord.tickets import Ticket

if TYPE_CHECKING:
    from kcoord.groups.offsets.committing import CommitTemplate

Protocols = tuple[tuple[str, bytes], ...]
"""Protocol names in order of preference, each with its subscription."""


class Holder(NamedTuple):
    """The client that groups and members are counted for, where a client may hold only so many: its principal if it is
    authenticated, its address and its client id."""

    principal: str  # authenticated; empty where nobody logs in
    host: str
    client_id: str


@dataclass(slots=True, kw_only=True)
class Member:
    """A member of a classic group: its ids, timeouts in seconds, subscriptions and assignment, the deadline of its
    session, and the tickets of its parked JoinGroup and SyncGroup (None if none is parked)."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: Protocols
    session: Deadline
    assignment: bytes = b""
    is_new: bool = False  # no completed join has returned its id yet
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None
    commit_template: "CommitTemplate | None" = None
    principal: str = ""  # authenticated; empty for a member that was read from the log
    held_bytes: int = 0  # names and subscriptions, as its group has counted them

    @property
    def holder(self) -> Holder:
        """The client that the member is counted for, where usage is limited."""
        return Holder(self.principal, self.client_host, self.client_id)

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_parked(self) -> bool:
        """Whether a JoinGroup or SyncGroup of the member waits for its reply."""
        return self.join_ticket is not None or self.sync_ticket is not None

    @property
    def may_be_silent(self) -> bool:
        """Whether the member need not send heartbeats now, because a JoinGroup or SyncGroup of it is parked.

        New members have a deadline all the same: one that hung up and joined again would otherwise stay twice for ever.
        """
        return self.is_parked and not self.is_new

    def subscription(self, protocol: str | None) -> bytes:
        """Returns the bytes of the member's subscription for a protocol, empty if the member does not support it."""
        for name, subscription in self.protocols:
            if name == protocol:
                return subscription
        return b""
