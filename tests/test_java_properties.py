"""Java's properties files. That Java reads them the same way is shown in integration/security/test_java_settings.py."""

from pathlib import Path

import pytest

from kcoord.java_properties import BadProperties, Property, properties_of, read_properties, read_properties_file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("  a : 1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a\t1", {"a": "1"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==1", {"a": "=1"}),
        ("a = b=c:d", {"a": "b=c:d"}),
        ("a=1\na=2", {"a": "2"}),
        ("# a=1\n! b=2\n\n   # c=3", {}),
        ("a=1 # no comment", {"a": "1 # no comment"}),
        ("a=b \\\n    c", {"a": "b c"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# no comment", {"a": "b# no comment"}),
        ("a=b\\", {"a": "b"}),
        (r"a\ b\:c\=d=e", {"a b:c=d": "e"}),
        (r"a=\t\n\r\f\q\\", {"a": "\t\n\r\fq\\"}),
        (r"a=\u0041\u00e4", {"a": "Aä"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1  ", {"a": "1  "}),
        ("=1", {"": "1"}),
    ],
)
def test_a_file_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert read_properties(text) == expected


def test_each_property_knows_the_line_that_it_begins_in() -> None:
    found = list(properties_of("# head\n\na=1\nb=2 \\\n  3\nc=4"))
    assert found == [
        Property(name="a", value="1", line=3),
        Property(name="b", value="2 3", line=4),
        Property(name="c", value="4", line=6),
    ]


@pytest.mark.parametrize("escape", [r"\u12", r"\u12g4", "\\u"])
def test_a_broken_escape_is_told_with_file_and_line(escape: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"a=1\nb={escape}\n")
    with pytest.raises(BadProperties) as caught:
        read_properties_file(path)
    assert str(caught.value) == f"{path}:2: \\u must be followed by four hexadecimal digits"


def test_a_file_is_latin_1_as_it_is_for_kafkas_tools(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(b"password=\xe4\n")
    assert [each.value for each in read_properties_file(path)] == ["ä"]
