"""Why somebody was not let in: few words, so that they can be counted."""

from enum import StrEnum
from typing import NamedTuple


class Refusal(StrEnum):
    NOT_TLS = "not-tls"
    """Plaintext, or anything else, to a port that speaks TLS."""
    TLS = "tls"
    """A handshake that failed otherwise: no version or cipher in common, or the client does not trust us."""
    NO_CERTIFICATE = "no-certificate"
    EXPIRED_CERTIFICATE = "expired-certificate"
    UNTRUSTED_CERTIFICATE = "untrusted-certificate"
    """By an authority that is not trusted here, or of no use for another reason."""
    TIMEOUT = "timeout"
    """The handshake or the login was not done in time."""
    BEFORE_LOGIN = "before-login"
    """A request that has to wait for the login."""
    MECHANISM = "mechanism"
    """A SASL mechanism that is not offered."""
    CREDENTIALS = "credentials"
    """A wrong password or an unknown user: nobody is told which."""
    MALFORMED = "malformed"
    """What no client sends."""
    LIMIT = "limit"
    """Too many connections."""


class Refused(NamedTuple):
    """One who was not let in. `about` is safe to log: nothing secret is in it."""

    why: Refusal
    about: str
