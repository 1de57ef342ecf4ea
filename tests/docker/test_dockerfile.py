"""Tests the Dockerfile as far as possible without Docker: what it copies, what it runs, and as which user."""

import re
import subprocess
import sys
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path, PurePosixPath

import pytest

from tests.docker.compose import ROOT, SERVICES, parsed, web_port, words_of
from tests.docker.dockerfile import copied, copy_context, is_let_through, stages

STAGES = stages((ROOT / "Dockerfile").read_text())
IGNORED = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BUILT = [name for name, service in SERVICES.items() if "build" in service]


def test_what_is_copied_is_there_and_let_through() -> None:
    for source in copied(STAGES["wheel"]):
        assert (ROOT / source).exists()
        assert is_let_through(PurePosixPath(source), IGNORED), f".dockerignore keeps {source} out"


@pytest.mark.parametrize(
    "path", [".venv/bin/kcoord", ".git/config", "kcoord/__pycache__/errors.pyc", "fixtures/wire/a"]
)
def test_nothing_else_is_let_through(path: str) -> None:
    assert not is_let_through(PurePosixPath(path), IGNORED)


def test_the_wheel_is_built_from_what_is_copied(tmp_path: Path) -> None:
    copy_context(STAGES["wheel"], IGNORED, tmp_path / "src")
    # Builds as pip does, but with the build dependencies installed here, so that nothing is downloaded.
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(tmp_path)!r})"
    built = subprocess.run([sys.executable, "-c", build], cwd=tmp_path / "src", capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    folders = {name.rpartition("/")[0].replace("/", ".") for name in names}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) <= folders
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_what_runs_is_the_command_of_the_package() -> None:
    entrypoint = STAGES["base"].last("ENTRYPOINT")
    assert entrypoint
    (program,) = entrypoint.as_list()
    assert program in PROJECT["project"]["scripts"]


@pytest.mark.parametrize("name", BUILT)
def test_a_service_is_built_from_a_stage_that_does_not_run_as_root(name: str) -> None:
    stage = STAGES[SERVICES[name]["build"]["target"]]
    users = [each.last("USER") for each in (stage, STAGES[stage.image])]
    user = next(user.rest for user in users if user)
    assert user == "kcoord"
    assert any(
        f"useradd --uid 10001 --user-group --create-home {user}" in each.rest for each in STAGES["base"].instructions
    )


def test_the_stage_that_is_built_if_none_is_named_is_the_command() -> None:
    assert list(STAGES)[-1] == SERVICES["proxy"]["build"]["target"]


def test_python_is_one_that_the_package_runs_on_and_has_a_version() -> None:
    images = {stage.image for stage in STAGES.values()} - set(STAGES)
    (image,) = images
    version = re.fullmatch(r"python:3\.(\d+)-slim-bookworm", image)
    least = re.fullmatch(r">=3\.(\d+)", PROJECT["project"]["requires-python"])
    assert version
    assert least
    assert int(version[1]) >= int(least[1])


def test_the_image_is_healthy_where_the_proxy_tells_its_metrics() -> None:
    check = STAGES["kcoord"].last("HEALTHCHECK")
    assert check
    port = web_port([check.rest])
    assert port == parsed(words_of("proxy"))["metrics"].port
    exposed = STAGES["kcoord"].last("EXPOSE")
    assert exposed
    assert str(port) in exposed.rest.split()


@pytest.mark.parametrize(("status", "exit_code"), [(200, 0), (503, 1)])
@pytest.mark.parametrize("name", BUILT)
def test_a_healthcheck_passes_if_and_only_if_it_is_answered_well(name: str, status: int, exit_code: int) -> None:
    _, program, *arguments = SERVICES[name]["healthcheck"]["test"]
    assert program == "python"
    with answering(status) as port:
        there = [word.replace(f":{web_port(arguments)}/", f":{port}/") for word in arguments]
        done = subprocess.run([sys.executable, *there], capture_output=True)
    assert done.returncode == exit_code


@contextmanager
def answering(status: int) -> Iterator[int]:
    """Starts a web server with a fixed response; yields its port."""

    class Always(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Always) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
