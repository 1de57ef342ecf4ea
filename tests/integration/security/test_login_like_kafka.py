"""Logins as no client would begin them, sent to kcoord and to a real broker: both return the same errors, and close at
the same time.

Some differences are intended: Kafka reports at the first SCRAM message that the user does not exist, kcoord continues
as if it did; kcoord closes on a request other than SASL's after the handshake, where Kafka answers it with
ILLEGAL_SASL_STATE first; on a proof of another length Kafka closes without an answer; and kcoord allows clients two
ApiVersions requests.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client import scram
from kcoord.client.client import Client, Disconnected
from kcoord.client.kio_codec import build_entity
from kcoord.client.secret import Secret
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import decode_response, encode_request, request_type
from kcoord.protocol.headers import RequestHeader
from kcoord.security.users import editing_users
from kcoord.testing.embedded import EmbeddedCluster
from tests.integration.support.secure_kafka import PASSWORDS, SecureKafka

MECHANISM = "SCRAM-SHA-512"
FIRST = scram.ClientFirst(username="alice", nonce="a-nonce-of-the-client")


@pytest.fixture(scope="module")
def addresses(secure_kafka: SecureKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[str, int]]]:
    """The endpoints of Kafka and of kcoord, with the same mechanism and the same user."""
    users: Path = tmp_path_factory.mktemp("users") / "users.json"
    with editing_users(users) as current:
        current[0] = current[0].with_user("alice", Secret(PASSWORDS["alice"]), iterations=4096)
    with EmbeddedCluster(options=["--sasl", MECHANISM, "--users", str(users)]) as cluster:
        pair = [secure_kafka.bootstrap("SASL"), cluster.bootstrap]
        yield [(host, int(port)) for host, _, port in (each.rpartition(":") for each in pair)]


Step = Callable[[Client], str]


def ask(api_key: int, version: int, **values: Any) -> Step:
    """Returns the error code of the answer, or "closed"; for SaslHandshake also the mechanisms."""

    def step(client: Client) -> str:
        response = client.ask(api_key, version, **values)
        mechanisms = "".join(f" {each}" for each in getattr(response, "mechanisms", ()))
        return f"{getattr(response, 'error_code', ErrorCode.none).name}{mechanisms}"

    return step


def send(content: bytes) -> Step:
    """Sends a frame of these bytes; returns the length of the answer."""

    def step(client: Client) -> str:
        client.send_bytes(struct.pack(">i", len(content)) + content)
        return f"{len(client.receive_frame())} bytes"

    return step


def claim(length: int) -> Step:
    """Sends the length of a frame that never comes."""

    def step(client: Client) -> str:
        client.send_bytes(struct.pack(">i", length))
        return f"{len(client.receive_frame())} bytes"

    return step


def log_in(password: str = PASSWORDS["alice"], *, spoiled: Callable[[str], str] = lambda text: text) -> Step:
    """Sends both messages of SCRAM; the second one may be corrupted."""

    def step(client: Client) -> str:
        challenge = client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=FIRST.text().encode())
        final, expected = scram.answer_challenge(MECHANISM, FIRST, password, challenge.auth_bytes.decode())
        answer = client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=spoiled(final.text()).encode())
        proof = scram.ServerFinal.parse(answer.auth_bytes.decode()).signature if answer.auth_bytes else None
        return f"{answer.error_code.name} {proof == expected}"

    return step


def log_in_raw(password: str = PASSWORDS["alice"]) -> Step:
    """Sends both messages without SaslAuthenticate, as before Kafka 1.0."""

    def raw(client: Client, text: str) -> str:
        client.send_bytes(struct.pack(">i", len(text)) + text.encode())
        return client.receive_frame().decode()

    def step(client: Client) -> str:
        final, expected = scram.answer_challenge(MECHANISM, FIRST, password, raw(client, FIRST.text()))
        return str(scram.ServerFinal.parse(raw(client, final.text())).signature == expected)

    return step


shake = ask(ApiKey.SASL_HANDSHAKE, 1, mechanism=MECHANISM)
versions = ask(ApiKey.API_VERSIONS, 3, client_software_name="test", client_software_version="1")
metadata = ask(ApiKey.METADATA, 12, topics=[])


def first(text: str) -> Step:
    return ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=text.encode())


SEQUENCES: dict[str, Sequence[Step]] = {
    "a login as it should be": [versions, shake, log_in(), metadata],
    "a login without asking for versions": [shake, log_in(), metadata],
    "a raw login": [ask(ApiKey.SASL_HANDSHAKE, 0, mechanism=MECHANISM), log_in_raw(), metadata],
    "a raw login that fails": [ask(ApiKey.SASL_HANDSHAKE, 0, mechanism=MECHANISM), log_in_raw("wrong")],
    "a wrong password": [shake, log_in("wrong"), metadata],
    "another nonce": [shake, log_in(spoiled=lambda text: text.replace(",r=a-", ",r=b-"))],
    "no proof": [shake, log_in(spoiled=lambda text: text.partition(",p=")[0])],
    "a proof that is not base64": [shake, log_in(spoiled=lambda text: text.replace(",p=", ",p=!"))],
    "a first message that is none": [shake, first("hello")],
    "an empty first message": [shake, first("")],
    "channel binding": [shake, first("p=tls-unique,,n=alice,r=x")],
    "a broken name": [shake, first("n,,n=al=ice,r=x")],
    "metadata before the login": [metadata],
    "metadata after versions": [versions, metadata],
    "a login without a handshake": [first(FIRST.text())],
    "another mechanism": [ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"), shake],
    "no mechanism": [ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="")],
    "two handshakes": [shake, shake],
    "a handshake and a message after the login": [
        shake,
        log_in(),
        ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b""),
        metadata,
    ],
    "versions that are too new, then others": [send(b"\0\x12\0\x63\0\0\0\1\xff\xff\0"), versions, shake, log_in()],
    "an api that does not exist": [send(struct.pack(">hhih", 9999, 0, 1, -1))],
    "a handshake that is too new": [send(struct.pack(">hhih", ApiKey.SASL_HANDSHAKE, 2, 1, -1))],
    "a message that is too new": [shake, send(struct.pack(">hhih", ApiKey.SASL_AUTHENTICATE, 3, 1, -1))],
    "a frame without a header": [send(b"\0")],
    "an empty frame": [send(b"")],
    "a handshake that ends too early": [send(struct.pack(">hhihh", ApiKey.SASL_HANDSHAKE, 1, 1, -1, 99))],
    "a frame that is too long": [claim(524_289)],
    "a negative length": [claim(-1)],
    "half of a gigabyte after the handshake": [shake, claim(1 << 29)],
}


def play(address: tuple[str, int], steps: Sequence[Step]) -> list[str]:
    answers = []
    with Client(*address, timeout=60) as client:
        for step in steps:
            try:
                answers.append(step(client))
            except (Disconnected, ConnectionError):
                return [*answers, "closed"]
    return answers


@pytest.mark.parametrize("name", SEQUENCES)
def test_kcoord_answers_as_kafka_does(addresses: list[tuple[str, int]], name: str) -> None:
    kafka, ours = (play(address, SEQUENCES[name]) for address in addresses)
    assert ours == kafka


def test_sasl_is_announced_in_the_same_versions(addresses: list[tuple[str, int]]) -> None:
    header = RequestHeader(api_key=ApiKey.API_VERSIONS, api_version=3, correlation_id=1, client_id="test")
    asked = encode_request(header, build_entity(request_type(ApiKey.API_VERSIONS, 3), {"client_software_name": "test"}))
    ranges = []
    for address in addresses:
        with Client(*address, timeout=60) as client:
            client.send_bytes(asked)
            _, response = decode_response(client.receive_frame(), ApiKey.API_VERSIONS, 3)
        ranges.append(
            {each for each in response.api_keys if each.api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)}
        )
    assert ranges[0] == ranges[1]
