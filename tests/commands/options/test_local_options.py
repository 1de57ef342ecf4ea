"""Tests of contradictory and invalid options of `kcoord proxy`, which are refused before anything starts."""

import pytest

from tests.support.admin.offsets_scene import kcoord

LOCAL = ("--coordinate", "local")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--data-dir", "data"), "--data-dir is for groups that live here: say --coordinate local"),
        (("--journal", "kafka"), "--journal is for groups that live here: say --coordinate local"),
        (("--set", "group.max.size=3"), "--set group.max.size is for groups that live here: say --coordinate local"),
        (("--seed", ".*"), "--seed is for groups that live here: say --coordinate local"),
        ((*LOCAL, "--journal", "kafka", "--data-dir", "data"), "say one of them"),
        ((*LOCAL, "--journal-topic", "groups"), "are about --journal kafka"),
        ((*LOCAL, "--journal", "kafka", "--journal-topic", ""), "--journal-topic: the name is missing"),
        ((*LOCAL, "--fsync"), "--fsync is about the files of --data-dir DIR"),
        ((*LOCAL, "--seed", "("), "'(' is no regular expression"),
        ((*LOCAL, "--set", "group.max.size"), "'group.max.size' is not NAME=VALUE"),
        ((*LOCAL, "--set", "group.max.sice=3"), "did you mean group.max.size?"),
        (("--set", "max.conections=3"), "there is no setting 'max.conections'; did you mean max.connections?"),
        (("--set", "a=b"), "there is no setting 'a'; serve --settings lists them"),
        (("--upstream", "nohost"), "--upstream: 'nohost' is not HOST:PORT"),
        (("--upstream-config", "/nowhere/to/be.found"), "--upstream-config: cannot read /nowhere/to/be.found"),
        (("--listen", "127.0.0.1:65535"), "there is no port behind 65535 for brokers: say another, or --port-base"),
        (("--set", "max.connections=few"), "max.connections=few: a whole number is expected"),
        (("--broker-ids", "1-3,x"), "'x' is no broker's id, nor a range of them like 1-3"),
        (("--broker-ids", "3-1"), "'3-1' is no broker's id"),
        (("--coordinate", "nobody"), "'nobody' is not one of 'upstream', 'local'"),
    ],
)
def test_a_usage_error_says_what_is_wrong_and_exits_2(options: tuple[str, ...], expected: str) -> None:
    run = kcoord("proxy", "--upstream", "127.0.0.1:1", *options)

    assert run.exit_code == 2
    assert expected in run.stderr
    assert len(run.stderr.splitlines()) == 1
