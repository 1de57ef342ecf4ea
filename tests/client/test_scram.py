"""SCRAM by the examples of the RFCs, and servers' messages that a client must refuse."""

from base64 import b64decode

import pytest

from kcoord.client.scram import BadScram, ClientFirst, ServerFinal, ServerFirst, answer_challenge

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def test_the_example_of_rfc_7677_is_computed_as_printed() -> None:
    first = ClientFirst(username="user", nonce=NONCE)
    assert first.text() == f"n,,n=user,r={NONCE}"
    final, expected = answer_challenge("SCRAM-SHA-256", first, "pencil", CHALLENGE)
    assert final.text() == (
        f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert expected == b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_commas_and_equals_signs_of_a_name_are_escaped() -> None:
    assert ClientFirst(username="a=b,c", nonce="n").text() == "n,,n=a=3Db=2Cc,r=n"


def test_a_delegation_token_is_announced_as_an_extension() -> None:
    assert ClientFirst(username="id", nonce="n", extensions="tokenauth=true").text() == "n,,n=id,r=n,tokenauth=true"


@pytest.mark.parametrize(
    ("challenge", "expected"),
    [
        ("r=another,s=AAAA,i=4096", "does not continue ours"),
        (f"r={NONCE},s=AAAA,i=4096", "does not continue ours"),
        (f"r={NONCE}x,s=AAAA,i=4095", "4095 iterations"),
        (f"r={NONCE}x,s=AAAA,i=999999999", "999999999 iterations"),
        (f"r={NONCE}x,s=A,i=4096", "not base64"),
        ("e=other-error", "malformed"),
        ("", "malformed"),
    ],
)
def test_a_challenge_that_is_weak_or_wrong_is_not_answered(challenge: str, expected: str) -> None:
    with pytest.raises(BadScram, match=expected):
        answer_challenge("SCRAM-SHA-256", ClientFirst(username="user", nonce=NONCE), "pencil", challenge)


def test_the_last_message_is_a_signature_or_an_error() -> None:
    assert ServerFinal.parse("v=AAAA") == ServerFinal(signature=b"\0\0\0")
    assert ServerFinal.parse("e=unknown-user").error == "unknown-user"
    with pytest.raises(BadScram):
        ServerFinal.parse("w=AAAA")


def test_a_server_message_is_written_as_it_is_read() -> None:
    assert ServerFirst.parse(CHALLENGE).text() == CHALLENGE
