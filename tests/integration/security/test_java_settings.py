"""kcoord parses properties files and JAAS lines as Kafka's own code does."""

import random
from pathlib import Path

import pytest

from kcoord.admin.connecting.client_settings import BadJaas
from kcoord.admin.connecting.jaas import login_module
from kcoord.java_properties import read_properties_file
from kcoord.testing.tools import JavaTools
from tests.integration.security.java_settings import JavaReading, read_by_java

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
WRITTEN = [
    'username="alice" password="secret";',
    "username='alice' password='it\\'s';",
    "username=alice password=a-b_c$d.e;",
    'username="a" password="say \\\\"hush\\\\" \\\\\\\\ \\\\t \\\\101";',
    'username="a" \\\n    password="b";',
    'username="a" password="b" // comment',
    '/* c */ username="a" password="b" /* d */;',
    'username="a" password=123;',
    'username="a" password;',
    'username="a" password="b"',
    'username="a" password="\\u00e4\\u20ac";',
    'username = "a"password="b";',
    'username="" password="";',
    'username="a" password="b"; x.Y required;',
]
PIECES = [
    "a",
    "b.c",
    "=",
    ":",
    " ",
    "\t",
    "\f",
    "\\",
    "\\\\",
    "\\\n",
    "\n",
    "\r\n",
    "#",
    "!",
    "\\t",
    "\\u0041",
    "\\=",
    "ä",
    "\\ ",
]
SEED = 20261116


def random_text(choice: random.Random) -> str:
    """Generates a text that ends in an ordinary line: Java treats a lone backslash at the end depending on the previous
    line end."""
    return "".join(choice.choices(PIECES, k=choice.randint(1, 40))) + "\nz=1\n"


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory, java_tools: JavaTools) -> list[tuple[Path, JavaReading]]:
    """Parses all of them in one JVM."""
    folder = tmp_path_factory.mktemp("properties")
    choice = random.Random(SEED)
    texts = [f"x=1\nsasl.jaas.config={MODULE} required {written}\ny=2\n" for written in WRITTEN]
    texts += [random_text(choice) for _ in range(400)]
    files = [folder / f"{number}.properties" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_bytes(text.encode("latin-1"))
    return list(zip(files, read_by_java(files), strict=True))


def test_a_properties_file_is_read_as_java_reads_it(readings: list[tuple[Path, JavaReading]]) -> None:
    assert sum(len(reading.properties) for _, reading in readings) > 500, "Java was asked about next to nothing"
    for path, reading in readings:
        ours = {each.name: each.value for each in read_properties_file(path)}
        assert ours == reading.properties, f"{path.read_bytes()!r}"


def test_a_jaas_line_is_read_as_java_reads_it(readings: list[tuple[Path, JavaReading]]) -> None:
    outcomes = []
    for path, reading in readings[: len(WRITTEN)]:
        try:
            module = login_module(reading.properties["sasl.jaas.config"])
            ours = {name: secret.reveal() for name, secret in module.options.items()}
        except BadJaas:
            ours = None
        assert ours == reading.login_options, path.read_text()
        outcomes.append(ours is not None)
    assert (outcomes.count(True), outcomes.count(False)) == (8, 6)
