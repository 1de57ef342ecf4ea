"""SaslHandshake from who has logged in already, or need not: security/login has those of logins."""

from typing import Any

from kcoord.security.sasl_replies import HANDSHAKE_OUT_OF_PLACE, HandshakeReply


def to_request(entity: Any) -> None:
    """Whatever it asks for, it asks at the wrong time."""


def decide(cluster: object, request: None, asked: object) -> HandshakeReply:
    return HANDSHAKE_OUT_OF_PLACE
