"""Usage of the limited resources by holder: groups, members, and the bytes of both.

| setting                   | counts                                                                                  |
|---------------------------|-----------------------------------------------------------------------------------------|
| `kcoord.max.groups`       | groups, also those with committed offsets only; the client that made it holds a group   |
| `kcoord.max.members`      | members, and member ids that were issued and not used yet                               |
| `kcoord.groups.max.bytes` | protocols, subscriptions, their topics and names; of a group its name, plan and offsets |

A holder is the authenticated principal. Where nobody logs in it is a client id at an address; since a client may change
its client id with every connection, the address is counted as well. Up to seven eighths of a limit any holder may use
as much as it likes. The last eighth is reserved for holders that use little, so that the largest holder is refused
first:

    total + more                                   <= 7/8 limit      everybody
    total + more + of the client id                <= 15/16 limit    a client id that holds little
    total + more + of client id and address        <= limit          one that holds little, at an address that does, too

So an address that uses a new client id for every request is refused beyond 15/16, and so are the others at that
address.

Nothing is taken away from a holder: a member may join again with as much as it had. Replayed records count, too. A
record has the client id and the address of a member but no principal, so that replayed members are counted by the
former. It does not name the creator of a group without members: such a group counts in total only.
"""

from typing import Final, NamedTuple

from kcoord.groups.classic.member import Holder, Member
from kcoord.groups.classic.protocols import topic_count
from kcoord.groups.requests import Join

NOBODY: Final = Holder(principal="", host="", client_id="")
_RESERVE: Final = 8  # one eighth of a limit is reserved
_MEMBER: Final = 1024  # bytes of the objects that a member consists of
_GROUP: Final = 2048  # bytes of the objects that a group consists of
_PROTOCOL: Final = 200  # bytes of each protocol, however short its name: two texts, their pair, and the group's votes
_TOPIC: Final = 128  # bytes of each subscribed topic, however short its name: a text, and its slot in the group's set


class ShareKeys(NamedTuple):
    """The keys that the usage of one client is counted by: its principal, or else its client id at its address, and the
    wider key, the address alone, which it shares with other clients."""

    exact: object
    wider: object


class ResourceUsage:
    """How much of one limited resource (groups, members or bytes) is in use: in total, and by each client."""

    __slots__ = ("shares", "total")

    def __init__(self) -> None:
        self.total = 0
        self.shares: dict[object, int] = {}

    def add(self, holder: Holder, change: int) -> None:
        """Adds the change, which may be negative, to the total and to the share of this client."""
        self.total += change
        if holder == NOBODY:
            return
        for name in set(_share_keys(holder)):
            share = self.shares.get(name, 0) + change
            if share:
                self.shares[name] = share
            else:
                self.shares.pop(name, None)

    def has_room(self, holder: Holder, more: int, limit: int) -> bool:
        """Returns whether this client may use `more` of the resource in addition, within `limit`; the last eighth of
        the limit is reserved for clients that use little."""
        total, reserve = self.total + more, limit // _RESERVE
        if total <= limit - reserve:
            return True
        share, wider_share = (self.shares.get(name, 0) for name in _share_keys(holder))
        return total + share <= limit - reserve // 2 or total + share + wider_share <= limit


class Usage:
    """How many groups, members and bytes the clients of a coordinator hold in memory, for the limits
    `kcoord.max.groups`, `kcoord.max.members` and `kcoord.groups.max.bytes`."""

    __slots__ = ("bytes", "groups", "members")

    def __init__(self) -> None:
        self.groups = ResourceUsage()
        self.members = ResourceUsage()
        self.bytes = ResourceUsage()


def member_bytes(client: Member | Join) -> int:
    """Returns how many bytes of memory a member holds, or would hold after its join.

    A member id begins with the client id or the instance id, which therefore count twice.
    """
    size = _MEMBER + (bytes_of_text(client.client_id) + bytes_of_text(client.instance_id or "")) * 2
    for name, subscription in client.protocols:
        size += _PROTOCOL + bytes_of_text(name) + len(subscription) + _TOPIC * topic_count(subscription)
    return size


def group_bytes(group_id: str) -> int:
    """Returns how many bytes of memory a group holds besides its members, assignments and offsets."""
    return _GROUP + bytes_of_text(group_id)


def bytes_of_text(text: str) -> int:
    """Returns the size of a text in memory, in bytes: four per character if it is not ASCII."""
    return len(text) if text.isascii() else 4 * len(text)


def _share_keys(holder: Holder) -> ShareKeys:
    if holder.principal:
        return ShareKeys(("principal", holder.principal), ("principal", holder.principal))
    return ShareKeys((holder.host, holder.client_id), holder.host)
