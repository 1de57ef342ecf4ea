"""Requests of any version to the coordinator of a scene, through encoded bytes but without a socket."""

from typing import Any, Final

from kcoord.api.caller import Caller
from kcoord.api.table import SERVED
from kcoord.client.kio_codec import build_entity
from kcoord.protocol.codec import decode_request, decode_response, encode_request, encode_response, request_type
from kcoord.protocol.headers import RequestHeader
from tests.support.groups.scene import Scene

_LENGTH: Final = 4  # bytes before a frame


class Conversation:
    """Encodes requests and decodes responses: `ask(ApiKey.LEAVE_GROUP, 2, group_id="g", member_id="m")` returns kio's
    entity."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def ask(self, api_key: int, version: int, **values: Any) -> Any:
        header = RequestHeader(api_key, version, correlation_id=7, client_id="client")
        frame = encode_request(header, build_entity(request_type(api_key, version), values))[_LENGTH:]
        _, entity = decode_request(frame, api_key, version)
        api: Any = SERVED[api_key].served
        asking = self.scene.ask(api.decide, api.to_request(entity, Caller("client", "/127.0.0.1")))
        reply = api.to_response(asking.reply, version) if api.to_response else asking.reply
        answer = encode_response(header, reply)[_LENGTH:]
        correlation_id, response = decode_response(answer, api_key, version)
        assert correlation_id == header.correlation_id
        return response


def versions(api_key: int, first: int = 0, last: int = 99) -> list[int]:
    """Returns the served versions within a range."""
    return [version for version in SERVED[api_key].versions if first <= version <= last]
