"""How much of what is limited is held, and by whom: groups, members, and the bytes of both.

| setting                   | counts                                                                                  |
|---------------------------|-----------------------------------------------------------------------------------------|
| `kcoord.max.groups`       | groups, also those that are nothing but committed offsets: whoever made one holds it    |
| `kcoord.max.members`      | members, and ids that were given out and not used yet                                   |
| `kcoord.groups.max.bytes` | protocols, subscriptions, their topics and names; of a group its name, plan and offsets |

A holder is the principal that has logged in. Where nobody logs in it is a client id at an address; as everybody may
change its client id with every connection, its address holds the same once more. Up to seven eighths of a limit anybody
may hold what it likes. The last eighth is for those who hold little, so that whoever holds most is refused first:

    total + more                                   <= 7/8 limit      everybody
    total + more + what it holds                   <= 15/16 limit    a client id that holds little
    total + more + what it and its address hold    <= limit          one that holds little at an address that does

So an address with a new client id for every request is refused beyond 15/16, and with it those who share the address.

Nothing is taken from anybody: a member may join again with as much as it had. What is replayed counts too. A record
tells of a member its client id and its address, so that a principal's members are found again by these; who made a
group that has no members it does not tell: it counts in total, and is nobody's.
"""

from typing import Final, NamedTuple

from kcoord.groups.classic.member import Holder, Member
from kcoord.groups.classic.protocols import topic_count
from kcoord.groups.requests import Join

NOBODY: Final = Holder(principal="", host="", client_id="")
_RESERVE: Final = 8  # of a limit, one part in so many
_MEMBER: Final = 1024  # for the objects that a member is made of
_GROUP: Final = 2048  # the same of a group
_PROTOCOL: Final = 200  # of each protocol, however short its name: two texts, a pair of them, and its group's votes
_TOPIC: Final = 128  # of each topic subscribed to, however short its name: a text, and its place in its group's set


class Shares(NamedTuple):
    """Under what a holder's share is found, and under what that of all who may be the same."""

    own: object
    wider: object


class Held:
    """What is held in all, and the share of each holder."""

    __slots__ = ("shares", "total")

    def __init__(self) -> None:
        self.total = 0
        self.shares: dict[object, int] = {}

    def add(self, holder: Holder, change: int) -> None:
        self.total += change
        if holder == NOBODY:
            return
        for name in set(_shares_of(holder)):
            share = self.shares.get(name, 0) + change
            if share:
                self.shares[name] = share
            else:
                self.shares.pop(name, None)

    def has_room(self, holder: Holder, more: int, limit: int) -> bool:
        """Whether the holder may have so much more."""
        total, reserve = self.total + more, limit // _RESERVE
        if total <= limit - reserve:
            return True
        own, wider = (self.shares.get(name, 0) for name in _shares_of(holder))
        return total + own <= limit - reserve // 2 or total + own + wider <= limit


class Census:
    """What is held in all groups of a coordinator."""

    __slots__ = ("bytes", "groups", "members")

    def __init__(self) -> None:
        self.groups = Held()
        self.members = Held()
        self.bytes = Held()


def bytes_of(client: Member | Join) -> int:
    """What a member holds, or would hold by its join. Its id begins with one of its names, which so count twice."""
    size = _MEMBER + (bytes_of_text(client.client_id) + bytes_of_text(client.instance_id or "")) * 2
    for name, subscription in client.protocols:
        size += _PROTOCOL + bytes_of_text(name) + len(subscription) + _TOPIC * topic_count(subscription)
    return size


def bytes_of_group(group_id: str) -> int:
    """What a group holds that has neither a plan nor offsets."""
    return _GROUP + bytes_of_text(group_id)


def bytes_of_text(text: str) -> int:
    """In memory a text that is not ASCII takes up to four bytes for each character."""
    return len(text) if text.isascii() else 4 * len(text)


def _shares_of(holder: Holder) -> Shares:
    if holder.principal:
        return Shares(("principal", holder.principal), ("principal", holder.principal))
    return Shares((holder.host, holder.client_id), holder.host)
