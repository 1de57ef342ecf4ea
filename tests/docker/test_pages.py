"""Checks what README.md, docs/docker.md and the head of docker-compose.yml state about Docker."""

import re
import shlex

import pytest

from tests.docker.compose import FILE, ROOT, SERVICES, all_published_ports, parsed, published
from tests.docker.dockerfile import stages

PAGE = (ROOT / "docs" / "docker.md").read_text()
README = (ROOT / "README.md").read_text()
SECTION = README[README.index("## With Docker") :].split("\n## ")[0] if "## With Docker" in README else ""
HEAD = FILE.read_text().split("\nname:")[0]


def commands(text: str) -> list[list[str]]:
    """Returns indented command lines and inline `docker build` commands, without the comments next to them."""
    lines = re.findall(r"^(?: {4}|# {3})((?:docker|kcoord|curl) .*)$", text, re.MULTILINE)
    lines += re.findall(r"`(docker (?:build|run|compose) [^`]* [^`]*)`", text)
    return [shlex.split(line, comments=True) for line in lines]


ALL = [" ".join(words) for text in (PAGE, SECTION, HEAD) for words in commands(text)]
COMPOSE = [words[2:] for words in map(str.split, ALL) if words[:2] == ["docker", "compose"]]


def test_there_is_something_to_look_at() -> None:
    assert len(commands(PAGE)) > 10
    assert commands(SECTION)
    assert commands(HEAD)


@pytest.mark.parametrize("command", [command for command in ALL if command.startswith("kcoord ")])
def test_a_command_of_this_machine_goes_to_a_port_that_is_published(command: str) -> None:
    words = shlex.split(command)[1:]
    parsed(words)
    host, _, port = words[words.index("-b") + 1].partition(":")
    assert host == "localhost"
    assert int(port) in all_published_ports()


@pytest.mark.parametrize("words", [words for words in COMPOSE if words[0] == "exec"], ids=" ".join)
def test_a_command_in_a_container_is_one_that_kcoord_has(words: list[str]) -> None:
    _, service, program, *arguments = words
    assert program == "kcoord"
    assert "build" in SERVICES[service]
    parsed(arguments)
    for word in arguments:
        for host, port in re.findall(r"(?<![\w.-])([a-z-]+):(\d+)$", word):
            assert port in str(SERVICES[host]), f"{word}: nothing listens there"


@pytest.mark.parametrize("words", [words for words in COMPOSE if words[0] != "exec"], ids=" ".join)
def test_compose_is_asked_for_what_it_can_do(words: list[str]) -> None:
    verb, *rest = words
    assert verb in ("up", "down", "logs", "cp")
    named = [word.partition(":")[0] for word in rest if not word.startswith(("-", "."))]
    assert set(named) <= set(SERVICES)


@pytest.mark.parametrize("command", [command for command in ALL if command.startswith("docker run ")])
def test_the_image_alone_runs_commands_that_kcoord_has(command: str) -> None:
    image = SERVICES["proxy"]["image"]
    words = command.split()
    parsed(words[words.index(image) + 1 :])


@pytest.mark.parametrize("command", [command for command in ALL if command.startswith("docker build ")])
def test_images_are_built_under_the_names_that_compose_has(command: str) -> None:
    words = command.split()
    target = words[words.index("--target") + 1] if "--target" in words else list(stages(dockerfile()))[-1]
    images = {service["build"]["target"]: service["image"] for service in SERVICES.values() if "build" in service}
    assert images[target] == words[words.index("-t") + 1]


def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("name", ["PAGE", "HEAD"])
def test_every_published_port_is_told_and_every_port_that_is_told_is_published(name: str) -> None:
    ports = {int(port) for port in re.findall(r"localhost:(\d+)", globals()[name])}
    brokers = {published("proxy")[1].port} if name == "HEAD" else set()  # clients learn it from the bootstrap

    assert ports | brokers == all_published_ports()


def test_ports_in_the_readme_are_published() -> None:
    ports = {int(port) for port in re.findall(r"localhost:(\d+)", SECTION)}
    assert ports
    assert ports <= all_published_ports()


@pytest.mark.parametrize("name", SERVICES)
def test_the_page_tells_every_image(name: str) -> None:
    assert f"`{SERVICES[name]['image']}`" in PAGE
