"""Limits of groups per authenticated principal, as clients meet them."""

from typing import Any

from kcoord.api_keys import ApiKey
from kcoord.client.secret import Secret
from kcoord.client.security import Plain, Security
from kcoord.errors import ErrorCode
from kcoord.security.listener import Listener, Sasl
from kcoord.security.users import Users
from tests.server.conftest import Serve, Server

USERS = (
    Users.nobody()
    .with_user("greedy", Secret("secret-1"), iterations=4096)
    .with_user("modest", Secret("secret-2"), iterations=4096)
)
GREEDY = Security(sasl=Plain(username="greedy", password=Secret("secret-1")))
MODEST = Security(sasl=Plain(username="modest", password=Secret("secret-2")))


def commit(server: Server, group_id: str, **options: Any) -> ErrorCode:
    """Commits an offset of a group without members over a new connection."""
    line = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    with server.client(**options) as client:
        answer = client.ask(
            ApiKey.OFFSET_COMMIT,
            7,
            group_id=group_id,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[{"name": "t", "partitions": [line]}],
        )
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def test_who_has_logged_in_is_known_by_that_whatever_its_client_id(serve: Serve) -> None:
    listener = Listener(sasl=Sasl(mechanisms=("PLAIN",), users=lambda: USERS))
    server = serve(topics=(("t", 1),), listener=listener, **{"kcoord.max.groups": "16"})
    taken = [commit(server, f"g{number}", security=GREEDY, client_id=f"c{number}") for number in range(16)]
    assert taken == [ErrorCode.none] * 14 + [ErrorCode.policy_violation] * 2
    assert commit(server, "other", security=MODEST, client_id="c0") is ErrorCode.none


def test_who_has_not_logged_in_is_known_by_its_client_id_and_address(serve: Serve) -> None:
    server = serve(topics=(("t", 1),), **{"kcoord.max.groups": "16"})
    taken = [commit(server, f"g{number}", client_id="greedy") for number in range(16)]
    assert taken == [ErrorCode.none] * 14 + [ErrorCode.policy_violation] * 2
    assert commit(server, "other", client_id="modest") is ErrorCode.none
