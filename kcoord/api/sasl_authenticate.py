"""SaslAuthenticate from who has logged in already, or need not: security/login has those of logins."""

from typing import Any

from kcoord.security.sasl_replies import AUTHENTICATE_OUT_OF_PLACE, AuthenticateReply


def to_request(entity: Any) -> None:
    """Whatever it brings, it brings at the wrong time."""


def decide(cluster: object, request: None, asked: object) -> AuthenticateReply:
    return AUTHENTICATE_OUT_OF_PLACE
