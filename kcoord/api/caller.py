"""Who asks, as a group remembers its members."""

from typing import NamedTuple

from kcoord.groups.classic.member import Holder


class Caller(NamedTuple):
    client_id: str
    host: str  # with a slash before it, as Kafka shows it: /127.0.0.1
    principal: str = ""  # that has logged in; empty if nobody does

    @property
    def holder(self) -> Holder:
        return Holder(self.principal, self.host, self.client_id)
