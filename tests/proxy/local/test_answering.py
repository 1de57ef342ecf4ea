"""Group requests that are answered without the coordinator, in every version."""

from typing import Any

import pytest

from kcoord.api.table import SERVED
from kcoord.api_keys import ApiKey
from kcoord.client.client_codec import kio_codec
from kcoord.errors import ErrorCode
from kcoord.protocol.frames import CorruptMessage
from kcoord.protocol.headers import RequestHeader
from kcoord.proxy.forwarding.interceptors import Request
from kcoord.proxy.local.answering import LIMITS, UNSERVED, BrokerEndpoint, find_coordinator, no_groups

HERE = BrokerEndpoint(7, "proxy.example", 9099)
GROUP, TRANSACTION, SHARE = 0, 1, 2


def request_of(api_key: int, version: int, **fields: Any) -> Request:
    frame = kio_codec(api_key, version).encode_request(RequestHeader(api_key, version, 31, "test"), fields)[4:]
    return Request(frame=frame, api_key=api_key, api_version=version, correlation_id=31)


def answered(request: Request, pieces: list[bytes] | None) -> Any:
    assert pieces is not None
    correlation_id, response = kio_codec(request.api_key, request.api_version).decode_response(b"".join(pieces)[4:])
    assert correlation_id == 31
    return response


@pytest.mark.parametrize("version", range(4))
def test_the_coordinator_of_one_group_is_the_broker_that_was_chosen(version: int) -> None:
    request = request_of(ApiKey.FIND_COORDINATOR, version, key="payments", key_type=GROUP)

    response = answered(request, find_coordinator(request, HERE))

    assert (response.node_id, response.host, response.port) == HERE
    assert response.error_code is ErrorCode.none


@pytest.mark.parametrize("version", range(4, 7))
def test_the_coordinator_of_many_groups_is_the_same_for_all(version: int) -> None:
    request = request_of(ApiKey.FIND_COORDINATOR, version, key_type=GROUP, coordinator_keys=["a", "b"])

    response = answered(request, find_coordinator(request, HERE))

    assert [(each.key, each.node_id, each.host, each.port) for each in response.coordinators] == [
        ("a", *HERE),
        ("b", *HERE),
    ]


@pytest.mark.parametrize("key_type", [TRANSACTION, SHARE])
@pytest.mark.parametrize("version", [1, 4, 6])
def test_coordinators_of_transactions_and_share_groups_are_the_upstreams(version: int, key_type: int) -> None:
    request = request_of(ApiKey.FIND_COORDINATOR, version, key="tx", key_type=key_type, coordinator_keys=["tx"])

    assert find_coordinator(request, HERE) is None


@pytest.mark.parametrize("version", [0, 3, 4])
def test_without_a_coordinator_clients_are_told_to_ask_again(version: int) -> None:
    request = request_of(
        ApiKey.FIND_COORDINATOR, version, key="payments", key_type=GROUP, coordinator_keys=["payments"]
    )

    response = answered(request, find_coordinator(request, None))

    lines = [response] if version < 4 else response.coordinators
    assert [line.error_code for line in lines] == [ErrorCode.coordinator_not_available]


def test_a_version_that_is_not_served_is_refused() -> None:
    request = request_of(ApiKey.FIND_COORDINATOR, 6, key_type=GROUP, coordinator_keys=["a"])

    with pytest.raises(CorruptMessage, match="version 7"):
        find_coordinator(
            Request(frame=request.frame, api_key=ApiKey.FIND_COORDINATOR, api_version=7, correlation_id=1), HERE
        )


@pytest.mark.parametrize("version", SERVED[ApiKey.LIST_GROUPS].versions)
def test_brokers_that_coordinate_nothing_list_no_groups(version: int) -> None:
    request = request_of(ApiKey.LIST_GROUPS, version)

    response = answered(request, no_groups(request))

    assert (response.groups, response.error_code) == ((), ErrorCode.none)


def test_clients_are_told_of_the_versions_that_the_coordinator_serves_and_of_no_other_kinds_of_groups() -> None:
    assert LIMITS[ApiKey.JOIN_GROUP] == SERVED[ApiKey.JOIN_GROUP].versions
    assert all(len(LIMITS[key]) == 0 for key in UNSERVED)
    assert 68 in UNSERVED
    assert 22 not in LIMITS, "InitProducerId stays as it is upstream"
