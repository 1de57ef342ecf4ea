"""The login of a client: SaslHandshake names the mechanism, SaslAuthenticate carries its messages (KIP-152).

There is no I/O here: a login is a generator that yields requests and is sent their responses. Between two requests it
may compute for a while (SCRAM) or fetch a token (OAUTHBEARER), so an event loop must run it in a thread.
"""

import hmac
import json
import secrets
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, assert_never

from kcoord.api_keys import ApiKey
from kcoord.client import scram
from kcoord.client.connect_errors import LoginFailed, in_one_line
from kcoord.client.security import OAuthBearer, Plain, Sasl, Scram, Security
from kcoord.errors import ErrorCode

SASL_HANDSHAKE: Final = (ApiKey.SASL_HANDSHAKE, 1)
NEWEST_AUTHENTICATE: Final = 2
API_VERSIONS: Final = (ApiKey.API_VERSIONS, 0)  # Every broker answers it, before a login too.


class LoginRequest(NamedTuple):
    """One request of a SASL login (ApiVersions, SaslHandshake or SaslAuthenticate) that `login_steps` yields, with the
    parameters of `Client.ask`. Its response is sent to the generator.
    """

    api_key: int
    api_version: int
    values: Mapping[str, Any]


LoginSteps = Generator[LoginRequest, Any, None]


def login_steps(security: Security, *, where: str) -> LoginSteps:
    """Yields the requests of a whole SASL login on a fresh connection; it returns when the login is done.

    `request = steps.send(None)` begins it; then `request = steps.send(response)` until StopIteration. A response is
    kio's entity, or any object with the fields of its version. `where` names the server in errors. Raises LoginFailed.
    """
    sasl = security.sasl
    assert sasl, "there is no login without one"
    version = yield from _negotiate_version()
    yield from _agree_on_mechanism(sasl.mechanism, where, without_login=replace(security, sasl=None).protocol)
    if version is None:
        raise LoginFailed(
            f"{where} does not speak SaslAuthenticate, as Kafka does since 1.0: there is no way to log in"
        )
    exchange = _SaslExchange(sasl, version, where)
    match sasl:
        case Plain():
            yield from exchange.exchange(_plain_message(sasl))
        case Scram():
            yield from _scram(exchange, sasl)
        case OAuthBearer():
            yield from _bearer(exchange, sasl)
        case _:
            assert_never(sasl)


def log_in(ask: Callable[..., Any], security: Security, *, where: str) -> None:
    """Does a whole SASL login: `ask` is `Client.ask` or a compatible function. Raises LoginFailed."""
    steps = login_steps(security, where=where)
    response = None
    while (request := _next_request(steps, response)) is not None:
        response = ask(request.api_key, request.api_version, **request.values)


def _next_request(steps: LoginSteps, response: Any) -> LoginRequest | None:
    try:
        return steps.send(response)
    except StopIteration:
        return None


def offered_mechanisms(response: Any) -> str:
    """Formats the SASL mechanisms that a SaslHandshake response lists, such as `PLAIN, SCRAM-SHA-256`."""
    return ", ".join(sorted(map(in_one_line, response.mechanisms))) or "none"


def _negotiate_version() -> Generator[LoginRequest, Any, int | None]:
    """Negotiates the version of SaslAuthenticate, before the login begins: Kafka knows version 2 since 2.5."""
    response = yield LoginRequest(*API_VERSIONS, {})
    for each in response.api_keys:
        if each.api_key == ApiKey.SASL_AUTHENTICATE and each.min_version <= NEWEST_AUTHENTICATE:
            return int(min(each.max_version, NEWEST_AUTHENTICATE))
    return None


def _agree_on_mechanism(mechanism: str, where: str, *, without_login: str) -> LoginSteps:
    response = yield LoginRequest(*SASL_HANDSHAKE, {"mechanism": mechanism})
    match response.error_code:
        case ErrorCode.none:
            return
        case ErrorCode.unsupported_sasl_mechanism:
            raise LoginFailed(
                f"{where} does not offer {mechanism} (sasl.mechanism); it offers {offered_mechanisms(response)}"
            )
        case ErrorCode.illegal_sasl_state:
            raise LoginFailed(f"{where} wants no login: use security.protocol={without_login}")
        case code:
            raise LoginFailed(f"{where} refused the login by {mechanism}: {code.name}")


class _SaslExchange:
    """Sends a mechanism's messages with SaslAuthenticate, in the version that both sides speak."""

    def __init__(self, sasl: Sasl, version: int, where: str) -> None:
        self.where = where
        self.failed = f"authentication failed for {_user(sasl)} with {sasl.mechanism} at {where}"
        self._sasl = sasl
        self._version = version

    def exchange(self, message: bytes) -> Generator[LoginRequest, Any, bytes]:
        """Sends one message and returns the server's answer. Raises LoginFailed."""
        response = yield self._authenticate_request(message)
        if response.error_code is ErrorCode.none:
            return bytes(response.auth_bytes)
        more = _server_detail(self._sasl, response.error_message)
        if response.error_code is ErrorCode.sasl_authentication_failed:
            raise LoginFailed(f"{self.failed}{more}")
        raise LoginFailed(f"{self.failed}: {response.error_code.name}{more}")

    def acknowledge(self, message: bytes) -> LoginSteps:
        """Sends one message and ignores the server's answer."""
        yield self._authenticate_request(message)

    def _authenticate_request(self, message: bytes) -> LoginRequest:
        return LoginRequest(ApiKey.SASL_AUTHENTICATE, self._version, {"auth_bytes": message})


def _plain_message(sasl: Plain) -> bytes:
    return f"\0{sasl.username}\0{sasl.password.reveal()}".encode()  # RFC 4616


def _scram(exchange: _SaslExchange, sasl: Scram) -> LoginSteps:
    extensions = "tokenauth=true" if sasl.is_delegation_token else ""
    first = scram.ClientFirst(username=sasl.username, nonce=secrets.token_urlsafe(24), extensions=extensions)
    challenge = yield from exchange.exchange(first.text().encode())
    try:
        final, expected = scram.answer_challenge(
            sasl.mechanism, first, sasl.password.reveal(), challenge.decode(errors="replace")
        )
        closing = yield from exchange.exchange(final.text().encode())
        server = scram.ServerFinal.parse(closing.decode(errors="replace"))
    except scram.BadScram as error:
        raise LoginFailed(f"the login by {sasl.mechanism} at {exchange.where} broke off: {error}") from None
    if server.signature is None:
        raise LoginFailed(f"{exchange.failed}: {in_one_line(server.error)}")
    if not hmac.compare_digest(server.signature, expected):
        raise LoginFailed(
            f"{exchange.where} could not prove that it knows the password of {_user(sasl)}: it may be an impostor"
        )


def _bearer(exchange: _SaslExchange, sasl: OAuthBearer) -> LoginSteps:
    pairs = {"auth": f"Bearer {sasl.token().reveal()}", **sasl.extensions}
    message = "n,,\1" + "".join(f"{name}={value}\1" for name, value in pairs.items()) + "\1"  # RFC 7628
    refusal = yield from exchange.exchange(message.encode())
    if not refusal:
        return
    # The server has sent its reason, and fails the login only when that is acknowledged.
    yield from exchange.acknowledge(b"\1")
    raise LoginFailed(f"{exchange.failed}: {_bearer_status(refusal)}")


def _bearer_status(refusal: bytes) -> str:
    try:
        return in_one_line(json.loads(refusal)["status"])
    except (ValueError, KeyError, TypeError):
        return in_one_line(refusal.decode(errors="replace"))


def _user(sasl: Sasl) -> str:
    return "the token's user" if isinstance(sasl, OAuthBearer) else f"user {in_one_line(sasl.username)}"


def _server_detail(sasl: Sasl, message: str | None) -> str:
    """Returns the server's message, if it explains more than a wrong password."""
    is_redundant = message is None or ("nvalid" in message and not isinstance(sasl, OAuthBearer))
    return "" if is_redundant else f": {in_one_line(message)}"
