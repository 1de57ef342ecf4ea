"""Why clients are refused, as the values of a metric's label."""

from enum import StrEnum
from typing import NamedTuple


class Refusal(StrEnum):
    """Why a listener rejected a client before or during its login: the values of a metric's label."""

    NOT_TLS = "not-tls"
    """Plaintext, or anything else that is not TLS, on a TLS port."""
    TLS = "tls"
    """A handshake that failed for another reason: no common version or cipher, or the client does not trust the server.
    """
    NO_CERTIFICATE = "no-certificate"
    EXPIRED_CERTIFICATE = "expired-certificate"
    UNTRUSTED_CERTIFICATE = "untrusted-certificate"
    """A certificate from an authority that is not trusted here, or one that is invalid for another reason."""
    TIMEOUT = "timeout"
    """The handshake or the login was not done in time."""
    BEFORE_LOGIN = "before-login"
    """A request that is allowed only after the login."""
    MECHANISM = "mechanism"
    """A SASL mechanism that is not offered."""
    CREDENTIALS = "credentials"
    """A wrong password or an unknown user: neither the client nor the log learns which."""
    MALFORMED = "malformed"
    """A frame that no valid client sends."""
    LIMIT = "limit"
    """Too many connections."""


class Refused(NamedTuple):
    """The reason why a listener rejected a client. `about` is safe to log: it contains no secrets."""

    why: Refusal
    about: str
