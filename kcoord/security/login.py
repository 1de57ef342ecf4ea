"""The server's half of SASL (KIP-43, KIP-152): frames go in, outcomes come out. No I/O, no clock.

| state     | a frame may be                                   | next state                                           |
|-----------|--------------------------------------------------|------------------------------------------------------|
| BEGINNING | ApiVersions, at most three times                 | the same                                             |
|           | SaslHandshake of a mechanism that is offered     | TOKENS, as SaslAuthenticate; after version 0, as raw |
|           | SaslHandshake of another                         | refused with the list of those that are              |
| TOKENS    | a message of the mechanism                       | TOKENS, CHECKING, LOGGED_IN or REFUSED               |
| CHECKING  | nothing: a password is being checked (`checked`) | LOGGED_IN or REFUSED                                 |

Anything else is refused. A client whose ApiVersions version is too new retries with an older one; behind a proxy it
may be too new for the proxy, then for the broker: hence three times.

    login = Login(users_file.current, ("PLAIN", "SCRAM-SHA-512"))
    match login.receive(frame):
        case Send(pieces): send them, continue reading
        case AnswerApiVersions(): answer the frame, an ApiVersions request, as after a login; continue reading
        case Check(work): login.checked(work()) is the outcome; work takes milliseconds, so let a thread do it
        case LoggedIn(pieces, principal): send them; the client is authenticated
        case Refuse(pieces, refused): wait (connection.failed.authentication.delay.ms), send them, close

Frames are whole and have no length prefix; pieces have one. The caller must refuse frames longer than
sasl.server.max.receive.size until the client is LoggedIn, and must limit the duration of the login. That size allows
for Kerberos tickets, far more than any message here needs: longer messages are refused before they are parsed.
"""

import secrets
from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kcoord.api_keys import ApiKey
from kcoord.client import scram
from kcoord.client.connect_errors import in_one_line
from kcoord.client.secret import Secret
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import codec, decode_request
from kcoord.protocol.frames import CorruptMessage, frame_pieces
from kcoord.protocol.headers import RequestHeader, read_request_start
from kcoord.security.refusals import Refusal, Refused
from kcoord.security.sasl_replies import (
    AUTHENTICATE_VERSIONS,
    HANDSHAKE_ILLEGAL_STATE,
    HANDSHAKE_VERSIONS,
    AuthenticateReply,
    HandshakeReply,
)
from kcoord.security.users import MAX_NAME_BYTES, Users

MECHANISMS: Final = ("PLAIN", *scram.HASHES)
_PLAIN: Final = "PLAIN"
_MAX_MESSAGE_BYTES: Final = 4096
_MALFORMED: Final = "a malformed message"
_MAX_API_VERSIONS: Final = 3


class Send(NamedTuple):
    """An outcome of a login step: send these bytes to the client, and continue to read frames."""

    pieces: list[bytes]


class AnswerApiVersions(NamedTuple):
    """An outcome of a login step: answer the client's ApiVersions request. The caller does so, since the answer depends
    on the server, not on the login.
    """


class Check(NamedTuple):
    """An outcome of a login step: verify a password by running `work` in a thread, since that takes milliseconds, and
    pass its result to `Login.checked`.
    """

    work: Callable[[], bool]


class LoggedIn(NamedTuple):
    """An outcome of a login step: the client is authenticated as this principal; send these bytes."""

    pieces: list[bytes]
    principal: str


class Refuse(NamedTuple):
    """An outcome of a login step: the login failed. Send these bytes after a delay, then close the connection."""

    pieces: list[bytes]
    refused: Refused


Outcome = Send | AnswerApiVersions | Check | LoggedIn | Refuse


class State(StrEnum):
    """The states of a SASL login: before the mechanism is chosen, while tokens come, while a password is verified, and
    the two ends.
    """

    BEGINNING = "beginning"
    TOKENS = "tokens"
    CHECKING = "checking"
    LOGGED_IN = "logged-in"
    REFUSED = "refused"


_NEXT: Final = {
    State.BEGINNING: {State.BEGINNING, State.TOKENS, State.REFUSED},
    State.TOKENS: {State.TOKENS, State.CHECKING, State.LOGGED_IN, State.REFUSED},
    State.CHECKING: {State.LOGGED_IN, State.REFUSED},
    State.LOGGED_IN: set[State](),
    State.REFUSED: set[State](),
}


class Login:
    """The server's half of the SASL login of one connection, without I/O. Each frame of the client leads to an outcome,
    which the caller carries out.
    """

    def __init__(
        self,
        users: Callable[[], Users],
        mechanisms: Collection[str],
        *,
        fresh_nonce: Callable[[], str] = lambda: secrets.token_urlsafe(24),
    ) -> None:
        assert set(mechanisms) <= set(MECHANISMS), "what is offered is known"
        self.state = State.BEGINNING
        self._users = users
        self._mechanisms = tuple(mechanisms)
        self._fresh_nonce = fresh_nonce
        self._api_versions_count = 0
        self._mechanism = ""
        self._header: RequestHeader | None = None  # of the current SaslAuthenticate; None if tokens are raw
        self._is_raw = False
        self._username = ""
        self._scram: tuple[scram.ClientFirst, scram.Credential, scram.ServerFirst] | None = None

    def receive(self, frame: bytes) -> Outcome:
        """Processes a frame of the client, and returns what to do next. No frame makes it raise an exception."""
        assert self.state in (State.BEGINNING, State.TOKENS), "nothing is read meanwhile, nor afterwards"
        try:
            return self._begin(frame) if self.state is State.BEGINNING else self._receive_token(frame)
        except CorruptMessage:  # the details are not logged: they may contain parts of a password
            return self._refuse(Refusal.MALFORMED, "a malformed request")

    def checked(self, is_right: bool) -> Outcome:
        """Continues after a Check with its result, whether the password is right, and returns what to do next."""
        assert self.state is State.CHECKING
        return self._succeed(b"") if is_right else self._fail()

    # Before the mechanism is agreed on.

    def _begin(self, frame: bytes) -> Outcome:
        start = read_request_start(frame)
        match start.api_key:
            case ApiKey.API_VERSIONS if self._api_versions_count < _MAX_API_VERSIONS:
                self._api_versions_count += 1
                return AnswerApiVersions()
            case ApiKey.SASL_HANDSHAKE if start.api_version in HANDSHAKE_VERSIONS:
                return self._select_mechanism(
                    start, decode_request(frame, start.api_key, start.api_version)[1].mechanism
                )
            case _:
                return self._refuse(Refusal.BEFORE_LOGIN, _describe(start))

    def _select_mechanism(self, header: RequestHeader, mechanism: str) -> Outcome:
        if mechanism not in self._mechanisms:
            reply = HandshakeReply(error_code=ErrorCode.unsupported_sasl_mechanism, mechanisms=self._mechanisms)
            offered = ", ".join(self._mechanisms)
            about = f"mechanism {in_one_line(mechanism)!r}, where {offered} can be had"
            return self._refuse(Refusal.MECHANISM, about, _answer(header, reply))
        self._mechanism = mechanism
        self._is_raw = header.api_version == 0
        self._move_to(State.TOKENS)
        return Send(_answer(header, HandshakeReply(mechanisms=self._mechanisms)))

    # The messages of the mechanism.

    def _receive_token(self, frame: bytes) -> Outcome:
        if self._is_raw:
            return self._on_message(frame)
        header = read_request_start(frame)
        if header.api_key == ApiKey.SASL_HANDSHAKE and header.api_version in HANDSHAKE_VERSIONS:
            illegal_state = _answer(header, HANDSHAKE_ILLEGAL_STATE)
            return self._refuse(Refusal.BEFORE_LOGIN, "a second SaslHandshake", illegal_state)
        if header.api_key != ApiKey.SASL_AUTHENTICATE or header.api_version not in AUTHENTICATE_VERSIONS:
            return self._refuse(Refusal.BEFORE_LOGIN, _describe(header))
        self._header, entity = decode_request(frame, header.api_key, header.api_version)
        return self._on_message(bytes(entity.auth_bytes))

    def _on_message(self, token: bytes) -> Outcome:
        if len(token) > _MAX_MESSAGE_BYTES:
            return self._fail(Refusal.MALFORMED, f"a message of {len(token)} bytes")
        try:
            text = token.decode()
            if self._mechanism == _PLAIN:
                return self._on_password(text)
            return self._challenge(text) if self._scram is None else self._verify(text)
        except (UnicodeDecodeError, scram.BadScram):
            return self._fail(Refusal.MALFORMED, _MALFORMED)

    def _on_password(self, text: str) -> Outcome:
        parts = text.split("\0")  # RFC 4616: authorization id, user, password
        if len(parts) != 3 or not _is_possible_name(parts[1]) or not parts[2]:
            return self._fail(Refusal.MALFORMED, _MALFORMED)
        authorization, self._username, password = parts[0], parts[1], Secret(parts[2])
        users, name, is_same_user = self._users(), self._username, authorization in ("", self._username)
        self._move_to(State.CHECKING)
        return Check(lambda: users.is_password(name, password) and is_same_user)

    def _challenge(self, text: str) -> Outcome:
        first = scram.ClientFirst.parse(text)
        if not _is_possible_name(first.username):
            return self._fail(Refusal.MALFORMED, _MALFORMED)
        self._username = first.username
        credential = self._users().credential(first.username, self._mechanism)
        challenge = scram.ServerFirst(
            nonce=first.nonce + self._fresh_nonce(), salt=credential.salt, iterations=credential.iterations
        )
        self._scram = (first, credential, challenge)
        return Send(self._token_pieces(challenge.text().encode()))

    def _verify(self, text: str) -> Outcome:
        assert self._scram is not None
        first, credential, challenge = self._scram
        final = scram.verify_proof(self._mechanism, credential, first, challenge, scram.ClientFinal.parse(text))
        # Users cannot act as other users, and there are no delegation tokens, whose ids would not be user names.
        is_same_user = first.authorization in ("", first.username) and "tokenauth=true" not in first.extensions.split(
            ","
        )
        return self._succeed(final.text().encode()) if final and is_same_user else self._fail()

    # How it ends.

    def _succeed(self, token: bytes) -> LoggedIn:
        self._move_to(State.LOGGED_IN)
        return LoggedIn(self._token_pieces(token), f"User:{self._username}")

    def _fail(self, why: Refusal = Refusal.CREDENTIALS, about: str = "a wrong password or an unknown user") -> Refuse:
        named = f" as {in_one_line(self._username)!r}" if self._username else ""
        message = f"Authentication failed: invalid credentials for {self._mechanism}"
        reply = AuthenticateReply(error_code=ErrorCode.sasl_authentication_failed, error_message=message)
        pieces = [] if self._header is None else _answer(self._header, reply)
        return self._refuse(why, f"{about}{named} by {self._mechanism}", pieces)

    def _refuse(self, why: Refusal, about: str, pieces: list[bytes] | None = None) -> Refuse:
        self._move_to(State.REFUSED)
        return Refuse(pieces or [], Refused(why, about))

    def _token_pieces(self, token: bytes) -> list[bytes]:
        return (
            frame_pieces([token])
            if self._header is None
            else _answer(self._header, AuthenticateReply(auth_bytes=token))
        )

    def _move_to(self, state: State) -> None:
        assert state in _NEXT[self.state], f"{self.state} is not followed by {state}"
        self.state = state


def _answer(header: RequestHeader, reply: Any) -> list[bytes]:
    return codec(header.api_key, header.api_version).response_pieces(header.correlation_id, reply)


def _describe(header: RequestHeader) -> str:
    return f"a request of API key {header.api_key} version {header.api_version} before the login"


def _is_possible_name(name: str) -> bool:
    """Whether a user may have this name."""
    return 0 < len(name.encode()) <= MAX_NAME_BYTES
