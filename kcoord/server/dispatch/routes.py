"""Routes: how one version of one API is served, made on first use.

A frame begins with its API's key and version, so that four bytes are enough to find the route.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from kcoord.api.table import SERVED
from kcoord.api_keys import ApiKey
from kcoord.protocol.codec import codec
from kcoord.protocol.headers import RequestHeader, read_request_header
from kcoord.protocol.response_template import ResponseTemplate
from kcoord.protocol.validate import FieldSpan


class Route:
    """What one version of one API needs: decodes its requests and encodes its responses, with the functions of its API
    file.
    """

    __slots__ = (
        "_codec",
        "_response_template",
        "_to_response",
        "_variable_field",
        "_version",
        "api",
        "decide",
        "has_recurring_replies",
        "is_templated",
        "prevalidate",
        "to_request",
        "with_fields",
    )

    def __init__(self, api_key: int, api_version: int) -> None:
        self.api = SERVED[api_key]
        served = self.api.served
        self.to_request = served.to_request
        self.decide: Any = served.decide
        self.prevalidate: Any = served.prevalidate
        self._variable_field = served.variable_field
        self.with_fields = served.with_fields
        self.is_templated = api_key == ApiKey.HEARTBEAT or self._variable_field is not None
        self.has_recurring_replies = api_key in (ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT)
        self._version = api_version
        self._codec = codec(api_key, api_version)
        field = served.per_member_field
        self._response_template = ResponseTemplate(self._codec, field) if field else None
        self._to_response = served.to_response

    def read(self, frame: bytes) -> tuple[RequestHeader, Any]:
        """Decodes a request frame into its header and kio's entity. Raises CorruptMessage."""
        header, position = read_request_header(frame, self._codec.request_header_version)
        return header, self._codec.read_request(frame, position)

    def variable_fields(self, frame: bytes) -> list[FieldSpan]:
        """Returns the positions of the fields in a request frame that may differ when its client repeats the request,
        such as the committed offsets.
        """
        if self._variable_field is None:
            return []
        _, position = read_request_header(frame, self._codec.request_header_version)
        return self._codec.find_in_request(self._variable_field)(frame, position)

    def encode_response(self, correlation_id: int, reply: Any) -> list[bytes]:
        """Encodes a reply as this version's response; returns the pieces of a frame."""
        response = self._to_response(reply, self._version) if self._to_response else reply
        if self._response_template is not None:
            return self._response_template.frames((correlation_id,), (response,))
        return self._codec.response_pieces(correlation_id, response)

    def encode_responses(self, correlation_ids: Sequence[int], replies: Sequence[Any]) -> list[bytes]:
        """Encodes the replies to many members of a group, for joins and syncs; returns a frame for each."""
        assert self._response_template is not None, "only joins and syncs are answered so"
        to_response, version = self._to_response, self._version
        if to_response is not None:
            replies = [to_response(reply, version) for reply in replies]
        return self._response_template.frames(correlation_ids, replies)


@cache
def route_for(api_key: int, api_version: int) -> Route:
    """Returns the route of a served version of an API. It is made once."""
    return Route(api_key, api_version)
