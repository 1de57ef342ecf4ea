"""The client of a request, with the fields that a group stores of its members."""

from typing import NamedTuple

from kcoord.groups.classic.member import Holder


class Caller(NamedTuple):
    """The client of a group request: its client id, its host as Kafka shows it (/127.0.0.1), and its authenticated
    principal, if any.
    """

    client_id: str
    host: str  # with a leading slash, as Kafka shows it: /127.0.0.1
    principal: str = ""  # authenticated; empty where nobody logs in

    @property
    def holder(self) -> Holder:
        """The client as the holder of memory that groups allocate for it, to which limits apply."""
        return Holder(self.principal, self.host, self.client_id)
