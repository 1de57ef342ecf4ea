"""The login against servers that lie or refuse; tests with real brokers are in integration/."""

from types import SimpleNamespace
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client import scram
from kcoord.client.connect_errors import LoginFailed
from kcoord.client.sasl import log_in
from kcoord.client.secret import Secret
from kcoord.client.security import OAuthBearer, Plain, Sasl, Scram, Security
from kcoord.errors import ErrorCode

WHERE = "kafka:9093"


class Server:
    """A fake server: it has answers to SaslHandshake and to each message, and collects the messages that it
    received.
    """

    def __init__(
        self,
        *answers: Any,
        mechanisms: tuple[str, ...] = (),
        handshake: ErrorCode = ErrorCode.none,
        newest: int | None = 2,
    ) -> None:
        self.received: list[bytes] = []
        self._newest = newest
        self._answers = list(answers)
        self._handshake = SimpleNamespace(error_code=handshake, mechanisms=mechanisms)

    def ask(self, api_key: int, api_version: int, **values: Any) -> Any:
        if (api_key, api_version) == (ApiKey.API_VERSIONS, 0):
            spoken = {} if self._newest is None else {ApiKey.SASL_AUTHENTICATE: self._newest}
            return SimpleNamespace(
                api_keys=[
                    SimpleNamespace(api_key=key, min_version=0, max_version=newest) for key, newest in spoken.items()
                ]
            )
        if (api_key, api_version) == (17, 1):
            return self._handshake
        assert (api_key, api_version) == (36, min(self._newest or 0, 2))
        self.received.append(values["auth_bytes"])
        answer = self._answers.pop(0)
        if isinstance(answer, bytes):
            return SimpleNamespace(error_code=ErrorCode.none, error_message=None, auth_bytes=answer)
        code, message = answer
        return SimpleNamespace(error_code=code, error_message=message, auth_bytes=b"")

    def refusal(self, sasl: Sasl) -> str:
        with pytest.raises(LoginFailed) as caught:
            log_in(self.ask, Security(sasl=sasl), where=WHERE)
        return str(caught.value)


class ScramServer(Server):
    """A server that signs with a password, which may be the wrong one."""

    def __init__(self, password: str) -> None:
        super().__init__()
        self._password = password
        self._challenge = ""

    def ask(self, api_key: int, api_version: int, **values: Any) -> Any:
        if api_key == ApiKey.SASL_AUTHENTICATE:
            self._answers = [self._next(values["auth_bytes"].decode())]
        return super().ask(api_key, api_version, **values)

    def _next(self, message: str) -> bytes:
        if not self._challenge:
            self._first = message.removeprefix("n,,")
            nonce = self._first.partition("r=")[2]
            self._challenge = scram.ServerFirst(nonce=f"{nonce}-server", salt=b"salt", iterations=4096).text()
            return self._challenge.encode()
        conversation = f"{self._first},{self._challenge},{message.rpartition(',p=')[0]}".encode()
        keys = scram.keys("SCRAM-SHA-512", self._password, b"salt", 4096)
        from base64 import b64encode

        return b"v=" + b64encode(scram.server_signature("SCRAM-SHA-512", keys.server, conversation))


def alice(password: str = "secret") -> Scram:
    return Scram(mechanism="SCRAM-SHA-512", username="alice", password=Secret(password))


def test_a_plain_login_sends_name_and_password_between_nulls() -> None:
    server = Server(b"")
    log_in(server.ask, Security(sasl=Plain(username="alice", password=Secret("pässword"))), where=WHERE)
    assert server.received == ["\0alice\0pässword".encode()]


@pytest.mark.parametrize("newest", [0, 1, 2, 3])
def test_the_newest_version_that_both_know_is_spoken(newest: int) -> None:
    server = Server(b"", newest=newest)
    log_in(server.ask, Security(sasl=Plain(username="alice", password=Secret("hush"))), where=WHERE)
    assert len(server.received) == 1


def test_a_server_without_saslauthenticate_is_sent_no_password() -> None:
    server = Server(newest=None)
    message = server.refusal(Plain(username="alice", password=Secret("hush")))
    assert message == f"{WHERE} does not speak SaslAuthenticate, as Kafka does since 1.0: there is no way to log in"
    assert server.received == []


def test_a_scram_login_ends_when_the_server_has_proved_itself_too() -> None:
    server = ScramServer("secret")
    log_in(server.ask, Security(sasl=alice()), where=WHERE)
    assert len(server.received) == 2
    assert b"secret" not in b"".join(server.received)


def test_a_server_that_does_not_know_the_password_is_an_impostor() -> None:
    assert ScramServer("guessed").refusal(alice()) == (
        f"{WHERE} could not prove that it knows the password of user alice: it may be an impostor"
    )


def test_a_wrong_password_names_the_user_the_mechanism_and_the_place() -> None:
    refused = (ErrorCode.sasl_authentication_failed, "Authentication failed: Invalid username or password")
    message = Server(refused).refusal(Plain(username="alice", password=Secret("hush")))
    assert message == f"authentication failed for user alice with PLAIN at {WHERE}"


def test_what_the_server_says_besides_is_shown_in_one_line() -> None:
    refused = (ErrorCode.sasl_authentication_failed, "locked\nuntil \x1b[31mmorning")
    message = Server(refused).refusal(Plain(username="alice", password=Secret("hush")))
    assert message == f"authentication failed for user alice with PLAIN at {WHERE}: locked\\nuntil \\x1b[31mmorning"


def test_a_mechanism_that_is_not_offered_is_told_with_those_that_are() -> None:
    server = Server(handshake=ErrorCode.unsupported_sasl_mechanism, mechanisms=("PLAIN", "OAUTHBEARER"))
    assert server.refusal(alice()) == (
        f"{WHERE} does not offer SCRAM-SHA-512 (sasl.mechanism); it offers OAUTHBEARER, PLAIN"
    )


def test_a_token_is_sent_with_its_extensions() -> None:
    server = Server(b"")
    bearer = OAuthBearer(token=lambda: Secret("abc.def.ghi"), extensions={"traceId": "1"})
    log_in(server.ask, Security(sasl=bearer), where=WHERE)
    assert server.received == [b"n,,\1auth=Bearer abc.def.ghi\1traceId=1\1\1"]


def test_a_token_that_is_refused_is_acknowledged_and_told_without_the_token() -> None:
    server = Server(b'{"status":"invalid_token"}', (ErrorCode.sasl_authentication_failed, "no"))
    message = server.refusal(OAuthBearer(token=lambda: Secret("abc.def.ghi")))
    assert message == f"authentication failed for the token's user with OAUTHBEARER at {WHERE}: invalid_token"
    assert server.received[1:] == [b"\1"]


@pytest.mark.parametrize("sasl", [alice("hush"), Plain(username="alice", password=Secret("hush"))])
def test_no_secret_is_in_what_a_login_shows_of_itself(sasl: Sasl) -> None:
    security = Security(sasl=sasl)
    assert "hush" not in f"{security!r}{security}{sasl!r}{sasl.password}"  # type: ignore[union-attr]
    assert "***" in repr(security)
