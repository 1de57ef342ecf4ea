import subprocess
import sys
from pathlib import Path

import pytest

from kcoord.testing.errors import ResolveError
from kcoord.testing.jars import kafka_folder, resolve
from kcoord.testing.jvm.archive import with_archive
from kcoord.testing.jvm.java import Java, Jvm
from kcoord.testing.tools import JavaTools

from .conftest import Programs, RunPython

GOOD_MAVEN = "echo called >> ../calls; sleep 0.3; mkdir libs; echo jar > libs/kafka.jar"


def test_a_second_call_says_that_all_is_there(java_tools: JavaTools, run_python: RunPython) -> None:
    answer = run_python("-m", "kcoord.testing.jars")
    assert answer.returncode == 0
    assert answer.stdout == f"Kafka 4.3.1 in {kafka_folder()}: already there\n"
    assert answer.stderr == ""


def test_the_last_words_of_a_failing_maven_are_shown(programs: Programs) -> None:
    programs.add("mvn", "for n in 1 2 3; do echo line $n; done; echo '[ERROR] no route to host' >&2; exit 1")
    with pytest.raises(
        ResolveError, match=r"(?s)Maven could not fetch Kafka 4\.3\.1.*line 3\n\[ERROR\] no route to host"
    ):
        resolve()
    assert not kafka_folder().exists()


def test_a_fetch_that_was_broken_off_is_done_again(programs: Programs) -> None:
    programs.add("mvn", "mkdir libs; echo half > libs/half.jar; exit 1")
    with pytest.raises(ResolveError):
        resolve()
    programs.add("mvn", GOOD_MAVEN)
    jars = [jar.name for jar in resolve().joinpath("libs").iterdir()]
    assert jars == ["kafka.jar"]
    assert not list(kafka_folder().parent.glob("*.unfinished"))


def test_two_processes_at_once_fetch_once(programs: Programs) -> None:
    programs.add("mvn", GOOD_MAVEN)
    command = [sys.executable, "-c", "from kcoord.testing.jars import resolve; print(resolve())"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate(timeout=60)[0].strip() for process in both]
    assert answers == [str(kafka_folder())] * 2
    assert kafka_folder().with_name("calls").read_text() == "called\n"


def test_a_cache_folder_that_cannot_be_written_is_named(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_way = programs.add("file", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(in_the_way))
    with pytest.raises(ResolveError, match="set XDG_CACHE_HOME"):
        resolve()


def test_without_a_class_archive_all_goes_on(programs: Programs, tmp_path: Path) -> None:
    java = Java(path=programs.add("java", "exit 1"), version="17")
    jvm = Jvm(java=java, jars=(), log_config=tmp_path / "log4j2.properties")
    assert with_archive(jvm, tmp_path) == jvm
    assert not list(tmp_path.glob("*.jsa"))
