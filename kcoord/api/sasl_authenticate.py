"""SaslAuthenticate outside of a login, which is refused. security/login handles those that belong to a login."""

from typing import Any

from kcoord.api.contract import broker_api
from kcoord.security.sasl_replies import AUTHENTICATE_ILLEGAL_STATE, AuthenticateReply


def to_request(entity: Any) -> None:
    """Ignores the contents: the request is refused in any case."""


def decide(cluster: object, request: None, context: object) -> AuthenticateReply:
    return AUTHENTICATE_ILLEGAL_STATE


API = broker_api(to_request=to_request, decide=decide)
