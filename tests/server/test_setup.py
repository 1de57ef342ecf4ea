"""The set-up of a cluster."""

from pathlib import Path
from typing import Final

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.settings import Settings
from kcoord.testing.embedded import EmbeddedCluster

_BROKER: Final = 4


@pytest.mark.parametrize(
    ("settings", "has_data_dir", "limit"),
    [
        ({}, False, Settings().kcoord_log_bytes),
        ({}, True, 2**63 - 1),
        ({"kcoord.log.bytes": str(Settings().kcoord_log_bytes)}, True, Settings().kcoord_log_bytes),
        ({"kcoord.log.bytes": "5000"}, True, 5000),
    ],
)
def test_a_data_dir_has_the_room_of_its_disk_unless_a_limit_is_set_be_it_the_usual_one(
    tmp_path: Path, settings: dict[str, str], has_data_dir: bool, limit: int
) -> None:
    with EmbeddedCluster(settings=settings, data_dir=tmp_path / "data" if has_data_dir else None) as cluster:
        assert _setting(cluster, "kcoord.log.bytes") == str(limit)


def _setting(cluster: EmbeddedCluster, name: str) -> str:
    host, port = cluster.bootstrap.split(":")
    asked = {"resource_type": _BROKER, "resource_name": "1", "configuration_keys": [name]}
    with Client(host, int(port)) as client:
        [answer] = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=[asked]).results
    [line] = answer.configs
    value: str = line.value
    return value
