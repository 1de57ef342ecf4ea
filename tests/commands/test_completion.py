"""Tests of completion, in a real bash, and by what click's scripts for zsh and fish send."""

import os
import pty
import select
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.model import Committed, TopicPartition
from kcoord.admin.opening import open_cluster
from tests.commands.terminal import KCOORD, PATIENCE, piped, quiet_environment

if TYPE_CHECKING:
    from kcoord.testing.embedded import EmbeddedCluster

GROUPS = ["orders-eu", "orders-us", "payments", "orders$(touch pwned)", "orders; reboot", "orders with blanks"]


@pytest.fixture(scope="module")
def cluster(kcoord_cluster_factory: "Callable[..., EmbeddedCluster]") -> "EmbeddedCluster":
    cluster = kcoord_cluster_factory(topics={"orders": 1, "refunds": 1})
    with open_cluster(Connection(bootstrap=(cluster.bootstrap,))) as live:
        for name in GROUPS:
            assert not live.commit(name, {TopicPartition("orders", 0): Committed(0)}).refused
    return cluster


def environment(**more: str) -> dict[str, str]:
    path = f"{Path(KCOORD[0]).parent}{os.pathsep}{os.environ['PATH']}"
    return quiet_environment(**{"PATH": path, "KCOORD_COMPLETION_TIMEOUT": str(PATIENCE), **more})


def in_bash(*lines: str, **more: str) -> list[list[str]]:
    """Returns the completions that bash offers after each line."""
    script = (
        'eval "$(kcoord completion bash)"; complete -p kcoord >/dev/null || exit 9\n'
        'for COMP_LINE in "$@"; do COMP_POINT=${#COMP_LINE}; _kcoord_completion kcoord\n'
        'IFS=,; echo "${COMPREPLY[*]}"; done'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", *lines],
        capture_output=True,
        text=True,
        env=environment(**more),
        timeout=PATIENCE,
        check=True,
    )
    assert done.stderr == ""
    return [offered.split(",") for offered in done.stdout.splitlines()]


def test_bash_is_offered_commands_options_and_choices() -> None:
    offered = in_bash(
        "kcoord lo",
        "kcoord groups des",
        "kcoord groups list --output=js",
        "kcoord groups list -o y",
        "kcoord completion ",
    )
    assert offered == [["log"], ["describe"], ["json"], ["yaml"], ["bash", "zsh", "fish"]]


def test_bash_is_offered_groups_of_the_cluster_that_the_line_names(cluster: "EmbeddedCluster") -> None:
    """A name with a colon, at which bash cuts words, is completed; a name that a shell would interpret is not."""
    offered = in_bash(
        f"kcoord groups describe -b {cluster.bootstrap} or", f"kcoord -b {cluster.bootstrap} groups describe pay"
    )
    assert offered == [["orders-eu", "orders-us"], ["payments"]]


def test_bash_is_offered_topics_of_the_cluster_that_the_environment_names(cluster: "EmbeddedCluster") -> None:
    assert in_bash("kcoord groups list --topic ref", KCOORD_BOOTSTRAP_SERVER=cluster.bootstrap) == [["refunds"]]


def test_bash_is_offered_contexts_and_asks_their_clusters(cluster: "EmbeddedCluster", tmp_path: Path) -> None:
    folder = {"KCOORD_CONFIG_DIR": str(tmp_path)}
    done = piped("context", "add", "production", "-b", cluster.bootstrap, environment=folder)
    assert done.returncode == 0, done.stderr
    offered = in_bash("kcoord groups list --context pro", "kcoord groups describe --context production pay", **folder)
    assert offered == [["production"], ["payments"]]


def test_tab_in_a_bash_that_someone_sits_at(cluster: "EmbeddedCluster") -> None:
    with _bash_with_a_person() as bash:
        bash.type('eval "$(kcoord completion bash)"; echo is "ready"\n')
        bash.see("is ready")
        bash.type(f"kcoord groups describe -b {cluster.bootstrap} pay\t")
        bash.see(f"{cluster.bootstrap} payments ")


# The other shells, by the environment that their scripts set


def asked_by(shell: str, **words: str) -> list[str]:
    done = piped(environment={"_KCOORD_COMPLETE": f"{shell}_complete", **environment(**words)})
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_zsh_is_offered_groups(cluster: "EmbeddedCluster") -> None:
    words = f"kcoord groups describe -b {cluster.bootstrap} ord"
    assert asked_by("zsh", COMP_WORDS=words, COMP_CWORD="5")[1::3] == ["orders-eu", "orders-us"]


def test_fish_is_offered_groups(cluster: "EmbeddedCluster") -> None:
    words = f"kcoord groups describe -b {cluster.bootstrap} ord"
    assert asked_by("fish", COMP_WORDS=words, COMP_CWORD="ord") == ["plain,orders-eu", "plain,orders-us"]


@pytest.mark.parametrize(
    ("shell", "registers"), [("zsh", "compdef _kcoord_completion kcoord"), ("fish", "complete --")]
)
def test_each_shell_gets_its_script(shell: str, registers: str) -> None:
    done = piped("completion", shell)
    assert done.returncode == 0
    assert registers in done.stdout


# When there are no names


def test_a_cluster_that_is_silent_is_given_up_soon() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        words = f"kcoord groups describe --request-timeout 600 -b 127.0.0.1:{deaf.getsockname()[1]} o"
        assert asked_by("fish", COMP_WORDS=words, COMP_CWORD="o", KCOORD_COMPLETION_TIMEOUT="0.5") == [""]


def test_a_line_that_names_no_cluster_or_a_wrong_one_offers_nothing_and_says_nothing(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        offered = in_bash(
            "kcoord groups describe ",
            "kcoord groups describe -X nonsense o",
            f"kcoord groups describe -b 127.0.0.1:{taken.getsockname()[1]} o",
            "kcoord groups describe --command-config /nowhere o",
            "kcoord fly x",
            KCOORD_CONFIG_DIR=str(tmp_path),
        )
    assert offered == [[""]] * 5


class _Bash:
    """An interactive bash in a terminal."""

    def __init__(self, keyboard: int) -> None:
        self._keyboard = keyboard
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._keyboard, text.encode())

    def see(self, text: str) -> None:
        """Waits until the text is on the screen."""
        deadline = time.monotonic() + PATIENCE
        while text not in self._seen:
            assert time.monotonic() < deadline, self._seen
            if select.select([self._keyboard], [], [], 1.0)[0]:
                self._seen += os.read(self._keyboard, 65536).decode(errors="replace")


@contextmanager
def _bash_with_a_person() -> Iterator[_Bash]:
    keyboard, screen = pty.openpty()
    with subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=screen,
        stdout=screen,
        stderr=screen,
        env=environment(TERM="dumb", COLUMNS="200"),
        start_new_session=True,
    ) as process:
        os.close(screen)
        try:
            yield _Bash(keyboard)
        finally:
            process.kill()
            os.close(keyboard)
