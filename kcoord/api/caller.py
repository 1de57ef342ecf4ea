"""Who asks, as a group remembers its members."""

from typing import NamedTuple


class Caller(NamedTuple):
    client_id: str
    host: str  # with a slash before it, as Kafka shows it: /127.0.0.1
