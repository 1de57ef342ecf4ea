"""How many bytes members hold, and whose they are: what `kcoord.groups.max.bytes` bounds.

A client is a client id at an address. A join that brings more is let in if

    what all hold + what its address holds + what its client id at that address holds + more <= limit

so that whoever holds most is refused first, while there is still room for others:

| who takes all it can get                         | gets         | is left for whoever holds nothing         |
|--------------------------------------------------|--------------|-------------------------------------------|
| one client id at an address                      | 1/3 of limit | 1/3 at the same address, 2/3 at any other |
| an address with a new client id for each request | 1/2          | 1/2 at any other address                  |

Nothing is taken from a member that is there: it may join again with as much as it had. What is replayed counts too.
"""

from typing import Final

from kcoord.groups.member import Member
from kcoord.groups.requests import Join

_MEMBER: Final = 1024  # for the objects that a member is made of


class Held:
    """Bytes in all, and by address and by client."""

    __slots__ = ("by_holder", "total")

    def __init__(self) -> None:
        self.total = 0
        self.by_holder: dict[object, int] = {}

    def add(self, client: Member | Join, change: int) -> None:
        self.total += change
        for holder in _holders(client):
            held = self.by_holder.get(holder, 0) + change
            if held:
                self.by_holder[holder] = held
            else:
                self.by_holder.pop(holder, None)

    def has_room(self, client: Member | Join, more: int, limit: int) -> bool:
        """Whether the client may hold so much more."""
        return self.total + sum(self.by_holder.get(holder, 0) for holder in _holders(client)) + more <= limit


def bytes_of(client: Member | Join) -> int:
    """What a member holds, or would hold by its join. Its id begins with one of its names, which so count twice."""
    size = _MEMBER + _size(client.client_id) * 2 + _size(client.instance_id or "") * 2
    for name, subscription in client.protocols:
        size += _size(name) + len(subscription)
    return size


def _size(text: str) -> int:
    """In memory a text that is not ASCII takes up to four bytes for each character."""
    return len(text) if text.isascii() else 4 * len(text)


def _holders(client: Member | Join) -> tuple[str, tuple[str, str]]:
    return client.client_host, (client.client_host, client.client_id)
