"""Lets Kafka's own code parse properties files; see ReadSettings.java."""

import os
import subprocess
from base64 import urlsafe_b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kcoord.testing.jars import kafka_jvm
from kcoord.testing.jvm.java import QUICK_FLAGS

SOURCE = Path(__file__).parent / "ReadSettings.java"
_NO_LOG = "-Dorg.apache.logging.log4j.level=OFF"  # otherwise it would be on stdout


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaReading:
    properties: dict[str, str]
    login_options: dict[str, str] | None
    """The options of sasl.jaas.config; None if there is none, or if Java refuses it."""


def read_by_java(files: Sequence[Path]) -> list[JavaReading]:
    return [_reading(line) for line in _run("read", files)]


def connected_by_java(files: Sequence[Path]) -> list[str]:
    """Returns the cluster id that Java's admin client gets with each of these files, or its error.

    If a file has a group.id, a record is written to the topic of its client.id and read by a member of that group, and
    the word `written` follows.
    """
    return _run("connect", files)


def _run(verb: str, files: Sequence[Path]) -> list[str]:
    jvm = kafka_jvm()
    done = subprocess.run(
        [jvm.java.path, *QUICK_FLAGS, _NO_LOG, "-cp", os.pathsep.join(map(str, jvm.jars)), SOURCE, verb, *files],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(files), done.stdout + done.stderr
    return lines


def _reading(line: str) -> JavaReading:
    properties, login = line.split(" ")
    refused = login in ("-", "refused") and "c2FzbC5qYWFzLmNvbmZpZw." not in properties
    options = None if login == "refused" or refused else _texts(login)
    return JavaReading(properties=_texts(properties), login_options=options)


def _texts(coded: str) -> dict[str, str]:
    if coded == "-":
        return {}
    pairs = [pair.split("=") for pair in coded.rstrip(",").split(",")]
    return {_text(name): _text(value) for name, value in pairs}


def _text(coded: str) -> str:
    plain = coded.rstrip(".")
    return urlsafe_b64decode(plain + "=" * (-len(plain) % 4)).decode()
