from pathlib import Path

import pytest

from kcoord.testing.errors import MissingProgramError
from kcoord.testing.jvm.java import Java, Jvm, find_java

from .conftest import Programs, RunPython

JARS = ("-m", "kcoord.testing.jars")


def test_a_missing_java_is_one_line_that_names_the_package(programs: Programs, run_python: RunPython) -> None:
    answer = run_python(*JARS)
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert answer.stderr == (
        "Kafka needs Java 17, and there is no java on the PATH: "
        "Debian/Ubuntu: apt install openjdk-17-jdk-headless; macOS: brew install openjdk@17\n"
    )


@pytest.mark.parametrize(("version", "major"), [("11.0.2", "11"), ("1.8.0_402", "8")])
def test_an_old_java_is_one_line_that_names_it(
    programs: Programs, run_python: RunPython, version: str, major: str
) -> None:
    java = programs.add_java(version)
    answer = run_python(*JARS)
    assert answer.returncode == 1
    assert answer.stderr.startswith(f"Kafka needs Java 17 or newer, and {java} is Java {major}: ")
    assert answer.stderr.count("\n") == 1


def test_a_java_that_does_not_run_is_one_line(programs: Programs, run_python: RunPython) -> None:
    programs.add("java", "exit 1")
    answer = run_python(*JARS)
    assert answer.returncode == 1
    assert "apt install openjdk-17-jdk-headless" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_a_missing_maven_is_one_line_that_names_the_package(programs: Programs, run_python: RunPython) -> None:
    programs.add_java("17.0.15")
    answer = run_python(*JARS)
    assert answer.returncode == 1
    assert answer.stderr == (
        "Kafka's jars are fetched by Maven, and there is no mvn on the PATH: "
        "Debian/Ubuntu: apt install maven; macOS: brew install maven\n"
    )


def test_java_home_wins_over_the_path(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    programs.add_java("11.0.2")
    newer = programs.add_java("25", name="home/bin/java")
    monkeypatch.setenv("JAVA_HOME", str(programs.folder / "home"))
    assert find_java().path == newer


def test_a_java_home_without_java_is_named(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    programs.add_java("17.0.15")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(MissingProgramError, match="JAVA_HOME=/nowhere has no bin/java"):
        find_java()


def test_flags_of_the_caller_come_after_those_of_the_house(tmp_path: Path) -> None:
    java = Java(path=Path("/usr/bin/java"), version="")
    jvm = Jvm(java=java, jars=(Path("a.jar"), Path("b.jar")), log_config=tmp_path / "log")
    command = jvm.command("a.Main", "--list", temp_folder=tmp_path, flags=["-Xmx1g"])
    assert command.index("-Xlog:disable") < command.index("-Xmx1g")
    assert command[-4:] == ["-cp", "a.jar:b.jar", "a.Main", "--list"]
