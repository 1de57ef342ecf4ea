"""Replies to SaslHandshake and SaslAuthenticate, and the supported versions."""

from dataclasses import dataclass
from typing import Final

from kcoord.errors import ErrorCode

HANDSHAKE_VERSIONS: Final = range(2)
AUTHENTICATE_VERSIONS: Final = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeReply:
    """The reply to a SaslHandshake request: the mechanisms that are offered."""

    error_code: ErrorCode = ErrorCode.none
    mechanisms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticateReply:
    """The reply to a SaslAuthenticate request, with the server's SASL token in `auth_bytes`. `session_lifetime` is in
    seconds.
    """

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime: float = 0.0  # a login does not expire while its connection lasts (KIP-368)


HANDSHAKE_ILLEGAL_STATE: Final = HandshakeReply(error_code=ErrorCode.illegal_sasl_state)
"""The reply where no login is wanted, or when one is done or in progress."""
AUTHENTICATE_ILLEGAL_STATE: Final = AuthenticateReply(
    error_code=ErrorCode.illegal_sasl_state, error_message="No login is wanted here, or it is done already."
)
