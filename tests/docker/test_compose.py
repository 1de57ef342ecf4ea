"""Checks docker-compose.yml against the specification, kcoord's command line, and for consistency of its parts."""

import copy
import json
import re
import subprocess
import tomllib
import zipfile
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from jsonschema import Draft202012Validator

from kcoord.testing.containers import DATA_DIR, IMAGE, container_environment, container_specs
from tests.docker.compose import CONFIG, FILE, LOOPBACK, ROOT, SERVICES, mounts, parsed, published, web_port, words_of

SCHEMA = json.loads((ROOT / "fixtures" / "compose" / "compose-spec.json").read_text())
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
KAFKA = SERVICES["kafka"]["environment"]


def mistakes(config: object) -> list[str]:
    found = Draft202012Validator(SCHEMA).iter_errors(config)
    return [f"{error.json_path}: {error.message}" for error in found]


def test_the_file_is_what_the_compose_specification_allows() -> None:
    assert mistakes(CONFIG) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("services", "kafka", "imagee"), "apache/kafka"),
        (("services", "proxy", "depends_on", "kafka", "condition"), "service_is_healthy"),
        (("services", "proxy", "healthcheck", "interval"), 5),
        (("services", "proxy", "ports"), "9464"),
        (("services", "spark-master", "volumes", 0, "volume", "no_copy"), True),
        (("networkss",), {}),
    ],
)
def test_a_mistake_in_the_file_would_be_seen(path: tuple[str | int, ...], value: object) -> None:
    broken: Any = copy.deepcopy(CONFIG)
    parent = broken
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    assert mistakes(broken)


def test_docker_compose_itself_reads_the_file() -> None:
    try:
        asked = subprocess.run(["docker", "compose", "version"], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no docker command here: `docker compose config` has not been asked about docker-compose.yml")
    if asked.returncode:
        pytest.skip("docker has no plugin compose here: it has not been asked about docker-compose.yml")
    command = ["docker", "compose", "--file", str(FILE), "config", "--format", "json"]
    completed = subprocess.run(command, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    assert not completed.stderr  # no warnings
    read = json.loads(completed.stdout)["services"]
    assert {name: service["image"] for name, service in read.items()} == {
        name: service["image"] for name, service in SERVICES.items()
    }
    for name in SERVICES:
        ports = {(each["host_ip"], int(each["published"]), each["target"]) for each in read[name].get("ports", ())}
        assert ports == set(published(name))


@pytest.mark.parametrize("name", SERVICES)
def test_every_image_has_a_version(name: str) -> None:
    image, _, version = SERVICES[name]["image"].partition(":")
    assert re.match(r"v?\d+\.\d+\.\d+", version), f"{image} of no version"
    if "build" in SERVICES[name]:
        assert version == VERSION


def test_kafka_is_the_one_of_the_tests() -> None:
    assert SERVICES["kafka"]["image"] == IMAGE


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_waited_for_until_it_is_healthy(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"
    for other, how in SERVICES[name].get("depends_on", {}).items():
        assert how == {"condition": "service_healthy"}
        assert other in SERVICES


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "kafka"])
def test_a_healthcheck_asks_where_the_service_listens(name: str) -> None:
    port = web_port(SERVICES[name]["healthcheck"]["test"])
    command = " ".join(words_of(name))
    assert port in {each.container_port for each in published(name)} or re.search(rf"\b{port}\b", command)


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_open_to_this_machine_alone_and_have_the_same_number_inside(name: str) -> None:
    for each in published(name):
        assert each.host == LOOPBACK
        assert each.port == each.container_port


def test_no_port_is_published_twice() -> None:
    ports = [each.port for name in SERVICES for each in published(name)]
    assert len(ports) == len(set(ports))


def test_volumes_are_declared_and_used_and_files_are_there() -> None:
    sources = {mount.source for name in SERVICES for mount in mounts(name)}
    files = {source for source in sources if source.startswith(".")}
    assert sources - files == set(CONFIG["volumes"])
    assert not [source for source in files if not (ROOT / source).exists()]


def test_kafka_is_told_nothing_that_the_container_of_the_tests_is_not() -> None:
    expected = container_specs(1, "localhost", {})
    known = container_environment(expected[0], expected, "", {})
    assert set(KAFKA) <= set(known)
    assert KAFKA["KAFKA_LOG_DIRS"] == known["KAFKA_LOG_DIRS"] == DATA_DIR
    assert KAFKA["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"] == known["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"]


def test_kafka_is_found_where_it_listens() -> None:
    listening = dict(re.findall(r"(\w+)://:(\d+)", KAFKA["KAFKA_LISTENERS"]))
    advertised = re.findall(r"(\w+)://([\w.]+):(\d+)", KAFKA["KAFKA_ADVERTISED_LISTENERS"])
    assert {name: host for name, host, _ in advertised} == {"CLIENT": "localhost", "INTERNAL": "kafka"}
    assert all(listening[name] == port for name, _, port in advertised)
    assert {each.port for each in published("kafka")} == {int(listening["CLIENT"])}
    assert KAFKA["KAFKA_CONTROLLER_QUORUM_VOTERS"] == f"{KAFKA['KAFKA_NODE_ID']}@kafka:{listening['CONTROLLER']}"
    assert f"kafka:{listening['INTERNAL']}" in SERVICES["kafka"]["healthcheck"]["test"]


def test_the_proxy_stands_before_that_kafka_and_its_clients_find_every_port() -> None:
    parameters = parsed(words_of("proxy"))
    assert f"INTERNAL://{parameters['upstream']}" in KAFKA["KAFKA_ADVERTISED_LISTENERS"]
    assert parameters["advertise"] == "localhost"
    bootstrap = int(parameters["listen"].rpartition(":")[2])
    broker = parameters["port_base"] + int(KAFKA["KAFKA_NODE_ID"])
    assert {each.port for each in published("proxy")} == {bootstrap, broker, parameters["metrics"].port}


def test_an_option_that_the_proxy_does_not_have_would_be_seen() -> None:
    with pytest.raises(click.NoSuchOption):
        parsed([*words_of("proxy"), "--no-such-option=1"])


def test_prometheus_asks_the_proxy() -> None:
    (job,) = yaml.safe_load((ROOT / "docs" / "docker" / "prometheus.yml").read_text())["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]
    assert target == f"proxy:{parsed(words_of('proxy'))['metrics'].port}"
    assert mount_of("prometheus", "docs/docker/prometheus.yml") == "/etc/prometheus/prometheus.yml"


def test_grafana_shows_the_dashboard_and_asks_prometheus() -> None:
    folder = ROOT / "docs" / "docker" / "grafana"
    (source,) = yaml.safe_load((folder / "datasources.yml").read_text())["datasources"]
    assert source["url"] == f"http://prometheus:{published('prometheus')[0].container_port}"
    (provider,) = yaml.safe_load((folder / "dashboards.yml").read_text())["providers"]
    dashboards = provider["options"]["path"]
    assert mount_of("grafana", "docs/grafana") == dashboards
    home = Path(SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert home.parent == Path(dashboards)
    text = (ROOT / "docs" / "grafana" / home.name).read_text()
    asked = set(re.findall(r'"datasource": \{[^}]*"uid": "([^"]+)"', text))
    assert asked
    assert {uid for uid in asked if not uid.startswith(("$", "-- "))} <= {source["uid"]}


def mount_of(service: str, file: str) -> str:
    (target,) = [mount.target for mount in mounts(service) if mount.source == f"./{file}"]
    return target


@pytest.mark.parametrize("name", ["spark-master", "spark-worker"])
def test_spark_is_that_of_the_package_and_has_what_it_is_told_to_run(name: str) -> None:
    program, main_class, *_ = words_of(name)
    spec = find_spec("pyspark")
    assert spec
    assert spec.submodule_search_locations
    home = Path(spec.submodule_search_locations[0])
    assert (home / "bin" / program).exists()
    (core,) = home.glob("jars/spark-core_*.jar")
    assert f"{main_class.replace('.', '/')}.class" in zipfile.ZipFile(core).namelist()


def test_spark_workers_go_to_the_master_and_see_the_same_folders() -> None:
    host, port = (
        words_of("spark-master")[words_of("spark-master").index(option) + 1] for option in ("--host", "--port")
    )
    assert host == "spark-master"
    assert words_of("spark-worker")[-1] == f"spark://{host}:{port}"
    assert list(mounts("spark-worker")) == list(mounts("spark-master"))
    assert SERVICES["spark-worker"]["image"] == SERVICES["spark-master"]["image"]


def test_durations_are_longer_than_what_they_wait_for() -> None:
    for service in SERVICES.values():
        check = service["healthcheck"]
        assert timedelta() < seconds(check["timeout"]) <= timedelta(seconds=15)
        assert seconds(check["interval"]) * check["retries"] >= timedelta(seconds=30)


def seconds(text: str) -> timedelta:
    assert text.endswith("s")
    return timedelta(seconds=int(text[:-1]))
