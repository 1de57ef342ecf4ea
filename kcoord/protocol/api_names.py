"""Kafka's names of its APIs."""

from functools import cache
from typing import Final

from kio.schema.index import api_key_map

from kcoord.api_keys import ApiKey

UNKNOWN: Final = "unknown"


@cache
def api_name(api_key: int) -> str:
    """Returns Kafka's name of an API, such as "ListOffsets" for 2. All APIs newer than kio share the name "unknown", as
    there may be any number of them."""
    return ApiKey(api_key).title if api_key in api_key_map else UNKNOWN
