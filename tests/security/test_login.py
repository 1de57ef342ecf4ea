"""The server's half of a login, frame by frame; the client's half is that of kcoord's clients."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.api_keys import ApiKey
from kcoord.client import scram
from kcoord.client.connect_errors import LoginFailed, in_one_line
from kcoord.client.kio_codec import build_entity
from kcoord.client.sasl import LoginSteps, login_steps
from kcoord.client.secret import Secret
from kcoord.client.security import Plain, Sasl, Scram, Security
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import decode_response, encode_request, request_type
from kcoord.protocol.headers import RequestHeader
from kcoord.security.login import AnswerApiVersions, Check, LoggedIn, Login, Outcome, Refuse, Send, State
from kcoord.security.refusals import Refusal
from kcoord.security.users import Users

ALL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
NAME = "al=ice,"
USERS = Users.nobody().with_user(NAME, Secret("pässword"), iterations=4096)


def request(api_key: int, version: int, correlation_id: int = 1, **values: Any) -> bytes:
    header = RequestHeader(api_key=api_key, api_version=version, correlation_id=correlation_id, client_id="test")
    return encode_request(header, build_entity(request_type(api_key, version), values))[4:]


def login(*mechanisms: str) -> Login:
    return Login(lambda: USERS, mechanisms or ALL, fresh_nonce=lambda: "server")


def begun(mechanism: str, *, version: int = 1) -> Login:
    made = login()
    assert isinstance(made.receive(request(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)), Send)
    return made


def finished(made: Login, outcome: Outcome) -> Outcome:
    return made.checked(outcome.work()) if isinstance(outcome, Check) else outcome


def response(outcome: Outcome, api_key: int, version: int) -> Any:
    assert isinstance(outcome, Send | LoggedIn | Refuse)
    return decode_response(b"".join(outcome.pieces)[4:], api_key, version)[1]


def refused(outcome: Outcome) -> Refusal:
    assert isinstance(outcome, Refuse)
    return outcome.refused.why


def log_in(made: Login, sasl: Sasl) -> Outcome:
    """Runs the whole login with kcoord's client; returns the outcome of the last frame."""
    steps: LoginSteps = login_steps(Security(sasl=sasl), where="here")
    question, outcome = steps.send(None), None
    while True:
        frame = request(question.api_key, question.api_version, **question.values)
        outcome = finished(made, made.receive(frame))
        answer = versions() if isinstance(outcome, AnswerApiVersions) else response(outcome, *question[:2])
        try:
            question = steps.send(answer)
        except StopIteration:
            return outcome
        except LoginFailed:
            assert isinstance(outcome, Refuse), "the client refused the server"
            return outcome


def versions() -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(api_keys=[SimpleNamespace(api_key=ApiKey.SASL_AUTHENTICATE, min_version=0, max_version=2)])


def client(mechanism: str, *, name: str = NAME, password: str = "pässword") -> Sasl:
    if mechanism == "PLAIN":
        return Plain(username=name, password=Secret(password))
    return Scram(mechanism=mechanism, username=name, password=Secret(password))


@pytest.mark.parametrize("mechanism", ALL)
def test_who_knows_the_password_is_let_in_by_name(mechanism: str) -> None:
    made = login()
    outcome = log_in(made, client(mechanism))
    assert isinstance(outcome, LoggedIn)
    assert outcome.principal == f"User:{NAME}"
    assert made.state is State.LOGGED_IN


@pytest.mark.parametrize("mechanism", ALL)
def test_a_wrong_password_and_an_unknown_user_cannot_be_told_apart(mechanism: str) -> None:
    answers = []
    for stranger in (client(mechanism, password="guessed"), client(mechanism, name="nobody")):
        outcome = log_in(login(), stranger)
        assert refused(outcome) is Refusal.CREDENTIALS
        answers.append(response(outcome, ApiKey.SASL_AUTHENTICATE, 2))
    assert answers[0] == answers[1]
    assert answers[0].error_code is ErrorCode.sasl_authentication_failed


@pytest.mark.parametrize("mechanism", ALL[1:])
def test_a_user_who_is_not_there_is_challenged_like_one_who_is(mechanism: str) -> None:
    challenges = []
    for name in (NAME, "nobody"):
        first = scram.ClientFirst(username=name, nonce="client")
        outcome = begun(mechanism).receive(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=first.text().encode()))
        challenges.append(scram.ServerFirst.parse(response(outcome, ApiKey.SASL_AUTHENTICATE, 2).auth_bytes.decode()))
    real, decoy = challenges
    assert (real.nonce, real.iterations, len(real.salt)) == (decoy.nonce, decoy.iterations, len(decoy.salt))


def test_a_password_is_checked_by_whoever_has_the_time() -> None:
    made = begun("PLAIN")
    outcome = made.receive(request(ApiKey.SASL_AUTHENTICATE, 0, auth_bytes=f"\0{NAME}\0pässword".encode()))
    assert isinstance(outcome, Check)
    assert made.state is State.CHECKING
    assert isinstance(made.checked(True), LoggedIn)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (f"somebody\0{NAME}\0pässword", Refusal.CREDENTIALS),
        (f"{NAME}\0pässword", Refusal.MALFORMED),
        (f"\0{NAME}\0pässword\0", Refusal.MALFORMED),
        ("\0\0pässword", Refusal.MALFORMED),
        (f"\0{NAME}\0", Refusal.MALFORMED),
        ("", Refusal.MALFORMED),
    ],
)
def test_a_plain_message_is_what_the_rfc_says_or_refused(message: str, why: Refusal) -> None:
    made = begun("PLAIN")
    outcome = finished(made, made.receive(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message.encode())))
    assert refused(outcome) is why
    assert response(outcome, ApiKey.SASL_AUTHENTICATE, 2).error_code is ErrorCode.sasl_authentication_failed


def test_one_may_say_that_one_acts_as_oneself() -> None:
    made = begun("PLAIN")
    outcome = made.receive(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=f"{NAME}\0{NAME}\0pässword".encode()))
    assert isinstance(finished(made, outcome), LoggedIn)


@pytest.mark.parametrize("mechanism", ALL)
@pytest.mark.parametrize(("size", "why"), [(255, Refusal.CREDENTIALS), (256, Refusal.MALFORMED)])
def test_a_name_that_no_user_can_have_is_malformed(mechanism: str, size: int, why: Refusal) -> None:
    outcome = log_in(login(), client(mechanism, name="ä" * (size // 2) + "b" * (size % 2)))
    assert refused(outcome) is why
    assert response(outcome, ApiKey.SASL_AUTHENTICATE, 2).error_code is ErrorCode.sasl_authentication_failed


@pytest.mark.parametrize("mechanism", ALL)
def test_a_message_that_is_far_too_long_is_refused_before_it_is_looked_into(mechanism: str) -> None:
    for frame in (b"\0a\0" + b"x" * 4096, b"n,,n=a,r=" + b"x" * 4096, b"\xff" * 500_000):
        outcome = begun(mechanism).receive(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=frame))
        assert refused(outcome) is Refusal.MALFORMED
        assert isinstance(outcome, Refuse)
        assert outcome.refused.about == f"a message of {len(frame)} bytes by {mechanism}"
        assert response(outcome, ApiKey.SASL_AUTHENTICATE, 2).error_code is ErrorCode.sasl_authentication_failed


def test_a_long_password_is_one() -> None:
    made = begun("PLAIN")
    message = f"\0{NAME}\0".encode()
    outcome = made.receive(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message + b"x" * (4096 - len(message))))
    assert isinstance(outcome, Check)


def test_of_what_is_shown_only_a_part_no_more_is_looked_at() -> None:
    class Endless(str):
        def __str__(self) -> str:
            return self

        def __iter__(self) -> Any:
            raise AssertionError("all of it is looked at")

    assert in_one_line(Endless("\n" * 1000)) == "\\n" * 150 + "…"
    assert in_one_line(Endless("x" * 1000)) == "x" * 300 + "…"
    assert in_one_line("x" * 300) == "x" * 300


@pytest.mark.parametrize(
    "first",
    [
        "",
        "n,,n=,r=client",
        "n,,n=alice",
        "n,,n=al=ice,r=client",
        "y,,n=alice,r=client",
        "p=tls-unique,,n=alice,r=client",
        "n,,m=must-understand,n=alice,r=client",
        "n,,n=alice,r=cli,ent",
        "n,,n=alice,r=\x7f",
    ],
)
def test_a_first_scram_message_that_is_malformed_fails_the_login(first: str) -> None:
    outcome = begun("SCRAM-SHA-256").receive(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=first.encode()))
    assert refused(outcome) is Refusal.MALFORMED
    assert response(outcome, ApiKey.SASL_AUTHENTICATE, 2).error_code is ErrorCode.sasl_authentication_failed


def test_bytes_that_are_no_text_fail_the_login() -> None:
    for mechanism in ALL:
        outcome = begun(mechanism).receive(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\xff\0\xff\0\xff"))
        assert refused(outcome) is Refusal.MALFORMED


def scram_final(made: Login, first: scram.ClientFirst, password: str = "pässword") -> scram.ClientFinal:
    outcome = made.receive(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=first.text().encode()))
    challenge = response(outcome, ApiKey.SASL_AUTHENTICATE, 2).auth_bytes.decode()
    return scram.answer_challenge("SCRAM-SHA-256", first, password, challenge)[0]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("r=clientserver", "r=clientserver2", Refusal.CREDENTIALS),
        ("r=clientserver", "r=server", Refusal.CREDENTIALS),
        ("c=biws", "c=eSws", Refusal.CREDENTIALS),
        (",p=", ",x=y,p=", Refusal.CREDENTIALS),
        (",p=", ",p=AAAA", Refusal.CREDENTIALS),
        (",p=", ",p=!", Refusal.MALFORMED),
        (",p=", ",q=", Refusal.MALFORMED),
        ("c=biws,", "", Refusal.MALFORMED),
    ],
)
def test_a_last_scram_message_must_fit_all_that_was_said(old: str, new: str, why: Refusal) -> None:
    made = begun("SCRAM-SHA-256")
    text = scram_final(made, scram.ClientFirst(username=NAME, nonce="client")).text()
    assert old in text
    outcome = made.receive(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=text.replace(old, new).encode()))
    assert refused(outcome) is why


@pytest.mark.parametrize(
    ("first", "is_let_in"),
    [
        (scram.ClientFirst(username=NAME, nonce="client", authorization=NAME), True),
        (scram.ClientFirst(username=NAME, nonce="client", extensions="an=extension"), True),
        (scram.ClientFirst(username=NAME, nonce="client", authorization="bob"), False),
        (scram.ClientFirst(username=NAME, nonce="client", extensions="tokenauth=true"), False),
    ],
)
def test_nobody_acts_as_another_and_there_are_no_delegation_tokens(first: scram.ClientFirst, is_let_in: bool) -> None:
    made = begun("SCRAM-SHA-256")
    outcome = made.receive(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=scram_final(made, first).text().encode()))
    assert isinstance(outcome, LoggedIn) == is_let_in


def test_a_proof_does_not_serve_twice() -> None:
    made = begun("SCRAM-SHA-256")
    first = scram.ClientFirst(username=NAME, nonce="client")
    final = scram_final(made, first).text().encode()
    again = Login(lambda: USERS, ALL, fresh_nonce=lambda: "another")
    again.receive(request(ApiKey.SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-256"))
    again.receive(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=first.text().encode()))
    assert refused(again.receive(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=final))) is Refusal.CREDENTIALS


def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are() -> None:
    outcome = login("SCRAM-SHA-512").receive(request(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"))
    assert refused(outcome) is Refusal.MECHANISM
    answer = response(outcome, ApiKey.SASL_HANDSHAKE, 1)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.unsupported_sasl_mechanism, ("SCRAM-SHA-512",))


def test_versions_may_be_asked_for_three_times_before_the_login_and_not_more_often() -> None:
    made = login()
    assert isinstance(made.receive(request(ApiKey.API_VERSIONS, 4)), AnswerApiVersions)
    assert isinstance(made.receive(request(ApiKey.API_VERSIONS, 4)), AnswerApiVersions)
    assert isinstance(made.receive(request(ApiKey.API_VERSIONS, 0)), AnswerApiVersions)
    assert refused(made.receive(request(ApiKey.API_VERSIONS, 0))) is Refusal.BEFORE_LOGIN


@pytest.mark.parametrize(
    "frame",
    [
        request(ApiKey.METADATA, 12, topics=None),
        request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b""),
        struct.pack(">hhih", ApiKey.SASL_HANDSHAKE, 2, 1, -1),
        struct.pack(">hhih", 9999, 0, 1, -1),
    ],
)
def test_anything_but_versions_and_a_handshake_is_refused_unread(frame: bytes) -> None:
    outcome = login().receive(frame)
    assert refused(outcome) is Refusal.BEFORE_LOGIN
    assert outcome == Refuse([], outcome.refused)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (request(ApiKey.METADATA, 12, topics=None), None),
        (request(ApiKey.API_VERSIONS, 3), None),
        (struct.pack(">hhih", ApiKey.SASL_AUTHENTICATE, 3, 1, -1), None),
        (request(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"), ErrorCode.illegal_sasl_state),
    ],
)
def test_between_handshake_and_password_nothing_else_may_come(frame: bytes, error: ErrorCode | None) -> None:
    outcome = begun("PLAIN").receive(frame)
    assert refused(outcome) is Refusal.BEFORE_LOGIN
    assert isinstance(outcome, Refuse)
    if error is None:
        assert outcome.pieces == []
    else:
        assert response(outcome, ApiKey.SASL_HANDSHAKE, 1).error_code is error


@pytest.mark.parametrize(
    "frame", [b"", b"\0\x11\0\1", struct.pack(">hhihh", ApiKey.SASL_HANDSHAKE, 1, 1, -1, 99) + b"PLAIN"]
)
def test_what_cannot_be_read_is_refused(frame: bytes) -> None:
    assert refused(login().receive(frame)) is Refusal.MALFORMED


def test_after_an_old_handshake_messages_come_and_go_as_they_are() -> None:
    made = begun("PLAIN", version=0)
    outcome = finished(made, made.receive(f"\0{NAME}\0pässword".encode()))
    assert outcome == LoggedIn([bytes(4)], f"User:{NAME}")
    made = begun("SCRAM-SHA-256", version=0)
    first = scram.ClientFirst(username=NAME, nonce="client")
    challenge = made.receive(first.text().encode())
    assert isinstance(challenge, Send)
    final, expected = scram.answer_challenge(
        "SCRAM-SHA-256", first, "pässword", b"".join(challenge.pieces)[4:].decode()
    )
    closing = made.receive(final.text().encode())
    assert isinstance(closing, LoggedIn)
    assert scram.ServerFinal.parse(b"".join(closing.pieces)[4:].decode()).signature == expected


def test_after_an_old_handshake_a_wrong_password_gets_no_answer() -> None:
    made = begun("PLAIN", version=0)
    outcome = finished(made, made.receive(f"\0{NAME}\0guessed".encode()))
    assert refused(outcome) is Refusal.CREDENTIALS
    assert outcome == Refuse([], outcome.refused)  # type: ignore[union-attr]


@pytest.mark.parametrize("mechanism", ALL)
def test_what_is_told_of_a_refusal_names_the_user_in_one_line_and_no_password(mechanism: str) -> None:
    outcome = log_in(login(), client(mechanism, name="mal\nlory", password="hush-hush"))
    assert isinstance(outcome, Refuse)
    assert "'mal\\\\nlory'" in outcome.refused.about
    assert "hush" not in repr(outcome)


FRAMES = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda name: request(ApiKey.SASL_HANDSHAKE, 1, mechanism=name), st.sampled_from(["PLAIN", "SCRAM-SHA-256", "X"])
    ),
    st.builds(
        lambda name: request(ApiKey.SASL_HANDSHAKE, 0, mechanism=name), st.sampled_from(["PLAIN", "SCRAM-SHA-256"])
    ),
    st.builds(lambda token: request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token), st.binary(max_size=40)),
    st.builds(
        lambda nonce: request(ApiKey.SASL_AUTHENTICATE, 0, auth_bytes=f"n,,n=a,r={nonce}".encode()), st.text(max_size=9)
    ),
    st.just(request(ApiKey.API_VERSIONS, 3)),
)


@given(st.lists(FRAMES, min_size=10, max_size=10))
def test_whatever_comes_a_login_ends_soon_and_lets_nobody_in_who_does_not_know_a_password(frames: list[bytes]) -> None:
    made = login()
    seen = 0
    for frame in frames:
        seen += 1
        outcome = made.receive(frame)
        if isinstance(outcome, Check):
            made.checked(False)
        if made.state not in (State.BEGINNING, State.TOKENS):
            break
    assert seen <= 6, "two requests for versions, a handshake, two messages, and one that is too many"
    assert made.state is State.REFUSED
