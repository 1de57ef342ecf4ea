"""A connection reaches the tasks that need it, and its credentials are shown nowhere."""

import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest

from kcoord.admin.connecting.connection import Connection, ConnectionOptions, resolve_connection
from kcoord.client.secret import Secret
from kcoord.client.security import OAuthBearer, Plain, Scram, Security, Tls
from kcoord.pipeline.sources.pickled_connection import pickle_connection

WORD = "hunter2-hunter2"
SECURE = Security(
    tls=Tls(authorities="-----CA-----", certificate_chain="chain", key=Secret("key"), key_password=Secret(WORD)),
    sasl=Scram(mechanism="SCRAM-SHA-512", username="alice", password=Secret(WORD), is_delegation_token=True),
)


def connection(security: Security = SECURE) -> Connection:
    return Connection(bootstrap=("a:1", "b:2"), security=security, client_id="me", request_timeout=7.0)


@pytest.mark.parametrize(
    "security", [Security(), SECURE, Security(sasl=Plain(username="bob", password=Secret(WORD)))], ids=str
)
def test_an_opened_connection_is_the_one_that_was_sealed(security: Security) -> None:
    assert pickle_connection(connection(security)).unpickle() == connection(security)


def test_what_is_for_librdkafka_stays_here() -> None:
    given = Connection(bootstrap=("a:1",), librdkafka={"sasl.password": Secret(WORD)})
    assert pickle_connection(given).unpickle().librdkafka == {}


def oauth(*pairs: tuple[str, str]) -> Connection:
    settings = (("security.protocol", "SASL_PLAINTEXT"), ("sasl.mechanism", "OAUTHBEARER"), *pairs)
    return resolve_connection(ConnectionOptions(bootstrap="a:1", pairs=settings), {"KCOORD_CONFIG": "/nowhere"})


@pytest.mark.parametrize(
    "pairs",
    [
        [("sasl.oauthbearer.config", "principal=carol lifeSeconds=60")],
        [
            ("sasl.oauthbearer.token.endpoint.url", "https://login.example/token"),
            ("sasl.oauthbearer.client.id", "me"),
            ("sasl.oauthbearer.client.secret", WORD),
        ],
    ],
    ids=["unsecured", "server"],
)
def test_a_source_of_tokens_is_sealed_without_the_token_it_has(pairs: Sequence[tuple[str, str]]) -> None:
    opened = pickle_connection(oauth(*pairs)).unpickle().security.sasl
    assert isinstance(opened, OAuthBearer)


def test_a_token_source_goes_on_giving_tokens_where_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    bearer = (
        pickle_connection(oauth(("sasl.oauthbearer.token.endpoint.url", (tmp_path / "token").as_uri())))
        .unpickle()
        .security.sasl
    )
    assert isinstance(bearer, OAuthBearer)
    assert bearer.token().reveal() == "first"
    (tmp_path / "token").write_text("second")
    assert bearer.token().reveal() == "second"


def test_a_sealed_connection_shows_nothing_of_itself() -> None:
    sealed = pickle_connection(connection())
    assert WORD not in repr(sealed)
    assert WORD not in str([sealed])
    assert pickle.loads(pickle.dumps(sealed)).unpickle() == connection()


def test_a_secret_is_still_not_pickled_by_accident() -> None:
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(connection())
