"""Spark starts, or one line explains why not."""

import socket
import stat
from pathlib import Path

import pytest

from kcoord.pipeline.session import (
    SMALL_BYTES,
    NoMaster,
    NoSpark,
    check_java,
    check_master,
    failure_in_log,
    settings_for,
)


def java_with_output(folder: Path, text: str) -> Path:
    """Makes a folder for JAVA_HOME, whose java prints this text."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return folder


def test_no_java_at_all_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoSpark, match="there is no Java: Spark needs 17 or newer"):
        check_java({"PATH": str(tmp_path)})


def test_a_java_home_without_java_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoSpark, match=r"JAVA_HOME is .*No such file"):
        check_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("output", "version"), [('openjdk version "11.0.2" 2019', "11"), ('java version "1.8.0_4"', "8")]
)
def test_an_old_java_is_said(output: str, version: str, tmp_path: Path) -> None:
    home = java_with_output(tmp_path, output)
    with pytest.raises(NoSpark, match=f"Java {version} is too old: Spark needs 17 or newer; JAVA_HOME leads to"):
        check_java({"JAVA_HOME": str(home)})
    with pytest.raises(NoSpark, match="the path leads to"):
        check_java({"PATH": str(home / "bin")})


@pytest.mark.parametrize(
    "output", ['openjdk version "17" 2021-09-14', 'openjdk version "21.0.1" 2023', 'java version "26-ea"']
)
def test_a_newer_java_is_taken(output: str, tmp_path: Path) -> None:
    check_java({"JAVA_HOME": str(java_with_output(tmp_path, output))})


def test_what_is_no_java_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoSpark, match="does not say which Java it is"):
        check_java({"JAVA_HOME": str(java_with_output(tmp_path, "hello"))})


@pytest.mark.parametrize("master", ["local[*]", "local[2]"])
def test_an_embedded_spark_is_set_up_by_how_much_there_is_to_read(master: str) -> None:
    large, small = settings_for(master, SMALL_BYTES + 1), settings_for(master, SMALL_BYTES)
    assert "-XX:TieredStopAtLevel=1" in small["spark.driver.extraJavaOptions"]
    assert large.items() - small.items() == {("spark.sql.shuffle.partitions", "8")}
    assert settings_for(master, None) == large, "what is not known may be large"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", None])
def test_a_clusters_settings_are_not_ours_however_little_there_is_to_read(master: str | None) -> None:
    assert settings_for(master, 1) == {}


def test_a_master_that_does_not_answer_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        port = taken.getsockname()[1]
        with pytest.raises(NoSpark, match=f"no Spark master answers at spark://127.0.0.1:{port}: Connection refused"):
            check_master(f"spark://127.0.0.1:{port}", {})


def test_one_master_of_several_that_answers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in (taken, server)]
        check_master("spark://" + ",".join(addresses), {})


@pytest.mark.parametrize(
    "master",
    [
        *("spark://host", "spark://host:1:2", "spark://", "mesos://x:1", "localhost:7077"),
        *("foo", "local[2", "local[abc]", "local[0]", "local[]", "local-cluster", "local-cluster[2]"),
    ],
)
def test_what_is_no_master_is_said(master: str) -> None:
    with pytest.raises(NoMaster, match=r"--master .*: say "):
        check_master(master, {})


def test_yarn_without_its_settings_is_said() -> None:
    with pytest.raises(NoSpark, match="HADOOP_CONF_DIR or YARN_CONF_DIR"):
        check_master("yarn", {})
    check_master("yarn", {"HADOOP_CONF_DIR": "/etc/hadoop"})


@pytest.mark.parametrize(
    "master", [None, "local", "local[*]", "local[2]", "local[*, 3]", "local-cluster[2,1,1024]", "k8s://https://h:6443"]
)
def test_masters_that_cannot_be_asked_are_taken(master: str | None) -> None:
    check_master(master, {})


def test_packages_that_cannot_be_found_are_named_out_of_a_page_about_them(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text(
        "WARNING: Using incubator modules\n:: loading settings :: url = jar:file:/ivy.jar!/ivysettings.xml\n"
        "org.a#b added as a dependency\n\t\t:: org.a#b;4.3.0: not found\n"
        'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: org.a#b;4.3.0: not found]\n'
    )
    assert failure_in_log(log) == "spark.jars.packages: org.a:b:4.3.0 cannot be found in any repository that Spark asks"
