"""SaslHandshake outside of a login, which is refused. security/login handles those that belong to a login."""

from typing import Any

from kcoord.api.contract import broker_api
from kcoord.security.sasl_replies import HANDSHAKE_ILLEGAL_STATE, HandshakeReply


def to_request(entity: Any) -> None:
    """Ignores the contents of a SaslHandshake request outside of a login, because it is refused in any case."""


def decide(cluster: object, request: None, context: object) -> HandshakeReply:
    """Refuses a SaslHandshake request outside of a login with ILLEGAL_SASL_STATE."""
    return HANDSHAKE_ILLEGAL_STATE


API = broker_api(to_request=to_request, decide=decide)
