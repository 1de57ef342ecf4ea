"""Bodies that do not match their API version, for every API and version that is served."""

import pytest

from kcoord.api.table import Api
from kcoord.api_keys import ApiKey
from kcoord.protocol.codec import codec, decode_request
from tests.hostile.bodies import APIS, sample, versions, with_lying_lengths, with_nulls
from tests.hostile.layout import lay_out
from tests.support.hostile.scene import Scene, request_frame
from tests.support.procs import MIB

each_api = pytest.mark.parametrize("api", APIS, ids=[api.name for api in APIS])


@each_api
def test_the_two_writers_agree(api: Api) -> None:
    for version, layout in versions(api):
        parts: list[bytes] = []
        codec(api.key, version).write_request(sample(api.key, version), parts)
        assert layout.body == b"".join(parts), f"version {version}"


@pytest.mark.fact("A-409")
@each_api
def test_lengths_that_lie_close_the_connection_and_take_no_memory(scene: Scene, api: Api) -> None:
    def lie() -> None:
        for version, layout in versions(api):
            for body in with_lying_lengths(layout):
                answer = scene.exchange(request_frame(api.key, version, body))
                assert answer is None, f"version {version}: {body.hex()} got {answer!r}"

    assert scene.growth_of(lie) < 8 * MIB


def test_nulls_where_none_may_be_are_answered_or_refused(scene: Scene) -> None:
    for api in APIS:
        for version, layout in versions(api):
            for body in with_nulls(layout):
                scene.exchange(request_frame(api.key, version, body))
    scene.assert_well()


@pytest.mark.fact("A-407")
@each_api
def test_a_body_cut_off_at_any_byte_closes_the_connection(scene: Scene, api: Api) -> None:
    for version in {api.versions[0], api.versions[-1]}:
        body = bytes(lay_out(sample(api.key, version)).body)
        for size in range(len(body)):
            answer = scene.exchange(request_frame(api.key, version, body[:size]))
            assert answer is None, f"version {version}: {body[:size].hex()} got {answer!r}"


@each_api
def test_bytes_behind_a_body_are_ignored(scene: Scene, api: Api) -> None:
    for version, layout in versions(api):
        answer = scene.exchange(request_frame(api.key, version, bytes(layout.body)))
        assert answer is not None, f"version {version}"
        longer = scene.exchange(request_frame(api.key, version, bytes(layout.body) + b"\xff" * 9))
        assert _without_ids(api, longer) == _without_ids(api, answer), f"version {version}"


@pytest.mark.fact("A-412")
@each_api
def test_unknown_tagged_fields_are_skipped_at_every_level(scene: Scene, api: Api) -> None:
    for version in api.versions:
        entity = sample(api.key, version)
        plain = lay_out(entity)
        if not plain.tag_sections:
            continue
        answer = scene.exchange(request_frame(api.key, version, bytes(plain.body)))
        sections = [range(n, n + 1) for n in range(plain.tag_sections)]
        for section in (*sections, range(plain.tag_sections)):
            frame = request_frame(api.key, version, bytes(lay_out(entity, unknown_tag_at=section).body))
            assert decode_request(frame[4:], api.key, version)[1] == entity, f"version {version}, {section}"
            assert _without_ids(api, scene.exchange(frame)) == _without_ids(api, answer), (
                f"version {version}, {section}"
            )


def _without_ids(api: Api, answer: bytes | None) -> bytes | None:
    """Drops the producer id: every InitProducerId gets another one, and all other answers are equal."""
    return answer[:5] if api.key == ApiKey.INIT_PRODUCER_ID and answer else answer
