"""Kafka's names of its APIs."""

from functools import cache
from typing import Final

from kio.schema.index import api_key_map

UNKNOWN: Final = "unknown"


@cache
def api_name(api_key: int) -> str:
    """Returns Kafka's name of an API, such as "ListOffsets" for 2. All APIs newer than kio share the name "unknown", as
    there may be any number of them."""
    path = api_key_map.get(api_key)
    return "".join(word.capitalize() for word in path.split("_")) if path else UNKNOWN
