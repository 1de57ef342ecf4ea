"""What Kafka calls its APIs."""

from functools import cache
from typing import Final

from kio.schema.index import api_key_map

UNKNOWN: Final = "unknown"


@cache
def api_name(api_key: int) -> str:
    """`ListOffsets` of 2. All that are newer than what is known here have one name: there may be any number of them."""
    path = api_key_map.get(api_key)
    return "".join(word.capitalize() for word in path.split("_")) if path else UNKNOWN
