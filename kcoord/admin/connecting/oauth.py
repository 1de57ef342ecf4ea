"""Sources of bearer tokens: an authorization server, a file, or unsigned tokens that are made here (for tests).

Each source caches its token until shortly before it expires: one token serves all brokers.
"""

import json
import math
import re
import threading
import time
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kcoord.client.connect_errors import LoginFailed, NoAnswer, in_one_line
from kcoord.client.secret import Secret

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

_MARGIN: Final = 0.8
"""A token is used for this share of its lifetime, as Java's login refresh does."""
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """The settings of OAuth's client credentials grant (RFC 6749 §4.4), by which a bearer token is requested from an
    authorization server."""

    endpoint: str
    client_id: str
    client_secret: Secret
    scope: str | None = None
    authorities: str | None = None
    """The certificate authorities to trust at an https endpoint, as PEM; None: those of the system."""
    timeout: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A bearer token. `lifetime` is in seconds since it was fetched; None if unknown, so that it is fetched again each
    time."""

    secret: Secret
    lifetime: float | None
    """Seconds since it was fetched; None: unknown, so that it is fetched again each time."""


class TokenSource:
    """A cache of a bearer token, which fetches a new one when the cached one is no longer valid; safe to share between
    threads."""

    def __init__(self, fetch: Callable[[], Token]) -> None:
        self.fetch = fetch
        self._lock = threading.Lock()
        self._token: Secret | None = None
        self._good_until = 0.0

    def __call__(self) -> Secret:
        with self._lock:
            if self._token is None or time.monotonic() >= self._good_until:
                fetched = self.fetch()
                self._token = fetched.secret
                self._good_until = time.monotonic() + (fetched.lifetime or 0.0) * _MARGIN
            return self._token


def from_server(grant: ClientCredentials) -> Token:
    """Requests a bearer token from the authorization server. Raises LoginFailed, NoAnswer."""
    return _parse_token(_request_token(grant), _redacted_url(grant.endpoint))


def from_file(path: Path) -> Token:
    """Reads a bearer token from a file that another program refreshes, as Kubernetes does; it is read again for each
    connection."""
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise LoginFailed(f"cannot read the token file {path}: {reason}") from None
    if not text:
        raise LoginFailed(f"the token file {path} is empty")
    return Token(secret=Secret(text), lifetime=None)


def unsecured_now(claims: Mapping[str, Any], lifetime: float) -> Token:
    """Makes an unsigned bearer token that is valid from now on for `lifetime` seconds, for tests."""
    return unsecured(claims, lifetime, time.time())


def unsecured(claims: Mapping[str, Any], lifetime: float, now: float) -> Token:
    """Makes an unsigned bearer token with these claims, valid for `lifetime` seconds: brokers accept it only if they
    are not configured for production."""
    body = {**claims, "iat": now, "exp": now + lifetime}
    parts = [_base64url(json.dumps(part).encode()) for part in ({"alg": "none"}, body)]
    return Token(secret=Secret(f"{parts[0]}.{parts[1]}."), lifetime=lifetime)


def _request_token(grant: ClientCredentials) -> bytes:
    from http.client import HTTPException, InvalidURL
    from urllib.error import HTTPError, URLError
    from urllib.parse import urlencode
    from urllib.request import Request

    form = {"grant_type": "client_credentials"} | ({"scope": grant.scope} if grant.scope else {})
    pair = f"{grant.client_id}:{grant.client_secret.reveal()}"
    headers = {"Authorization": f"Basic {b64encode(pair.encode()).decode()}", "Accept": "application/json"}
    shown = _redacted_url(grant.endpoint)
    url = _LOGIN.sub("", grant.endpoint)  # the login of the URL is not sent: the grant has its own
    try:
        request = Request(url, urlencode(form).encode(), headers)  # noqa: S310 - security.py checks the scheme
        with _opener(grant).open(request, timeout=grant.timeout) as response:
            return bytes(response.read(_MOST_BYTES))
    except HTTPError as error:
        with error:
            details = _format_oauth_error(error.read(_MOST_BYTES))
        client = in_one_line(grant.client_id)
        raise LoginFailed(
            f"the authorization server {shown} gave client {client} no token: {error.code}{details}"
        ) from None
    except TimeoutError:
        raise NoAnswer(f"the authorization server {shown} did not answer within {grant.timeout:g} s") from None
    except (InvalidURL, ValueError):  # their messages quote a part of the URL
        raise LoginFailed(f"cannot ask the authorization server {shown}: that is no URL") from None
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise LoginFailed(f"cannot ask the authorization server {shown}: {in_one_line(reason)}") from None


_LOGIN: Final = re.compile(r"(?<=://)[^/?#]*@")


def _redacted_url(endpoint: str) -> str:
    """Returns scheme, host and path. The text before an @ may be a password, even if it contains a slash."""
    return in_one_line(re.split(r"[?#]", re.sub(r"(?<=://).*@", "", endpoint, flags=re.DOTALL))[0])


def _opener(grant: ClientCredentials) -> "OpenerDirector":
    from urllib.request import HTTPRedirectHandler, HTTPSHandler, build_opener

    class NoRedirect(HTTPRedirectHandler):
        """Refuses redirects: the target would get the client's secret."""

        def redirect_request(self, *_: Any) -> None:
            return None

    if not grant.endpoint.startswith("https:"):
        return build_opener(NoRedirect)
    from kcoord.client.security import Tls
    from kcoord.client.tls import context_of

    return build_opener(NoRedirect, HTTPSHandler(context=context_of(Tls(authorities=grant.authorities))))


def _parse_token(body: bytes, shown: str) -> Token:
    try:
        answer = json.loads(body)
        token = answer.get("access_token") or answer.get("id_token")
    except (ValueError, AttributeError, RecursionError):
        token = None
    if not isinstance(token, str) or not token:
        raise LoginFailed(f"the authorization server {shown} answered without an access_token")
    lifetime = _seconds(answer.get("expires_in"))
    return Token(secret=Secret(token), lifetime=_jwt_lifetime(token, time.time()) if lifetime is None else lifetime)


def _jwt_lifetime(token: str, now: float) -> float | None:
    """Returns the remaining lifetime by the token's exp claim, if it is a JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return _seconds(float(claims["exp"]) - now)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _seconds(value: object) -> float | None:
    """Parses a finite, positive number of seconds; None for anything else that a server may answer."""
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None


def _format_oauth_error(body: bytes) -> str:
    """Formats the error of RFC 6749 §5.2: an error code and perhaps a description. Nothing else is repeated."""
    try:
        answer = json.loads(body)
        words = [answer[name] for name in ("error", "error_description") if isinstance(answer.get(name), str)]
    except (ValueError, AttributeError, RecursionError):
        return ""
    return f" ({in_one_line(': '.join(words))})" if words else ""


def _base64url(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")
