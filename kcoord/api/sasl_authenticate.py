"""SaslAuthenticate outside of a login, which is refused. security/login handles those that belong to a login."""

from typing import Any

from kcoord.api.contract import broker_api
from kcoord.security.sasl_replies import AUTHENTICATE_ILLEGAL_STATE, AuthenticateReply


def to_request(entity: Any) -> None:
    """Ignores the contents of a SaslAuthenticate request outside of a login, because it is refused in any case."""


def decide(cluster: object, request: None, context: object) -> AuthenticateReply:
    """Refuses a SaslAuthenticate request outside of a login with ILLEGAL_SASL_STATE."""
    return AUTHENTICATE_ILLEGAL_STATE


API = broker_api(to_request=to_request, decide=decide)
