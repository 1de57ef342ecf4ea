"""Files of rules: parsing, the messages for mistakes, and reloading changes."""

from pathlib import Path

import pytest

from kcoord.security.rules import ANY, Kind, Operation, Pattern, Rule, Rules
from kcoord.security.rules_file import BadRules, RulesFile, read_rules


def test_a_file_has_one_rule_in_a_line() -> None:
    text = """
# who may do what
super User:admin

allow User:alice  read, DESCRIBE   topic orders   # with a comment
allow User:alice  all              group shop-*
deny  User:*      delete           topic *        from 10.0.0.7
allow User:ops    create,alter_configs cluster
"""
    assert read_rules(text, "rules") == Rules(
        super_users={"User:admin": 3},
        rules=(
            rule(5, {Operation.READ, Operation.DESCRIBE}, Kind.TOPIC, Pattern(name="orders")),
            rule(6, {Operation.ALL}, Kind.GROUP, Pattern(name="shop-", is_prefix=True)),
            Rule(
                line=7,
                is_denial=True,
                principal="User:*",
                operations=frozenset({Operation.DELETE}),
                kind=Kind.TOPIC,
                pattern=ANY,
                host="10.0.0.7",
            ),
            rule(
                *(8, {Operation.CREATE, Operation.ALTER_CONFIGS}),
                *(Kind.CLUSTER, Pattern(name="kafka-cluster")),
                principal="User:ops",
            ),
        ),
    )


def rule(line: int, operations: set[Operation], kind: Kind, pattern: Pattern, principal: str = "User:alice") -> Rule:
    return Rule(
        line=line,
        is_denial=False,
        principal=principal,
        operations=frozenset(operations),
        kind=kind,
        pattern=pattern,
    )


def test_what_stands_in_quotes_is_taken_as_it_is() -> None:
    text = r'allow "User:CN=al \"ice\", O=Us" read group "a # b*"' + '\nallow User:x read group "my group"*'
    first, second = read_rules(text, "rules").rules
    assert first.principal == 'User:CN=al "ice", O=Us'
    assert first.pattern == Pattern(name="a # b*")
    assert second.pattern == Pattern(name="my group", is_prefix=True)


@pytest.mark.parametrize("address", ["10.0.0.7", "::ffff:10.0.0.7", "::FFFF:a00:7"])
def test_an_address_is_the_same_however_it_is_written(address: str) -> None:
    (rule,) = read_rules(f"deny User:a read topic t from {address}", "rules").rules
    assert rule.host == "10.0.0.7"


def test_windows_writes_files_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "rules.txt"
    path.write_bytes(b"\xef\xbb\xbfallow User:a read topic t\r\n\r\nsuper User:b\r\n")
    rules = RulesFile(path).rules
    assert (rules.rules[0].pattern.name, rules.super_users) == ("t", {"User:b": 3})


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("permit User:a read topic t", "begins with allow, deny or super"),
        ("allow", "allow whom"),
        ("allow alice read topic t", "'alice' is no principal; one is written User:NAME"),
        ("allow Group:a read topic t", "is no principal"),
        ("allow User: read topic t", "is no principal"),
        ("allow User:a* read topic t", "principals are named in full"),
        ("allow User:a topic t", "it is not said what"),
        ("allow User:a read", "it is not said on what"),
        ("allow User:a raed topic t", "'raed' is no operation"),
        ("allow User:a write group g", "write means nothing of a group; there are read, delete, describe,"),
        ("allow User:a read cluster", "read means nothing of a cluster"),
        ("allow User:a read topic", "which topic?"),
        ('allow User:a read topic ""', "a name is empty"),
        ("allow User:a read topic a*b", "a * stands for the rest of a name, at its end"),
        ("allow User:a read topic t u", "nothing is expected but from ADDRESS at 'u'"),
        ("allow User:a read topic t from", "nothing is expected but from ADDRESS"),
        ("allow User:a read topic t from localhost", "'localhost' is no address"),
        ("allow User:a read topic t from 10.0.0.0/8", "is no address"),
        ("deny User:a read topic t from fe80::1%eth0", "is no address"),
        ('allow User:a read topic "t', "a quote is not closed"),
        ("deny User:a read topic t#2", "a comment begins behind a blank"),
        ("deny User:a read topic 't'", "can be no topic"),
        ('deny User:a read topic "my topic"*', "can be no topic"),
        (f"deny User:a read topic {'t' * 250}", "can be no topic"),
        ('allow User:a read topic "t"u', "something sticks to it"),
        ("super", "super is followed by one principal"),
        ("super User:a User:b", "super is followed by one principal"),
        ("super User:*", "not everybody can be a super user"),
    ],
)
def test_a_mistake_is_one_line_that_says_where_and_what(line: str, what: str) -> None:
    with pytest.raises(BadRules) as caught:
        read_rules(f"super User:x\n\n{line}\n", "etc/rules.txt")
    assert str(caught.value).startswith("etc/rules.txt, line 3: ")
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text_or_not_there_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "rules.txt"
    path.write_bytes(b"super User:a\nallow \xff")
    with pytest.raises(BadRules, match=r"rules.txt, line 2: is not UTF-8 text$"):
        RulesFile(path)
    with pytest.raises(BadRules, match=r"absent: cannot be read: No such file or directory$"):
        RulesFile(tmp_path / "absent")


def test_a_changed_file_is_taken_up_once_it_rests(tmp_path: Path) -> None:
    path = tmp_path / "rules.txt"
    path.write_text("super User:a\n")
    file = RulesFile(path)
    assert not file.reload()
    path.write_text("")  # it is still being written
    assert not file.reload()
    replace(path, "super User:b\n")
    assert not file.reload()
    assert file.rules.super_users == {"User:a": 1}
    assert file.reload()
    assert file.rules.super_users == {"User:b": 1}
    assert not file.reload()


def test_a_broken_file_is_reported_once_and_the_rules_stay(tmp_path: Path) -> None:
    path = tmp_path / "rules.txt"
    path.write_text("super User:a\n")
    file = RulesFile(path)
    replace(path, "supper User:b\n")
    assert not file.reload()
    with pytest.raises(BadRules, match="line 1"):
        file.reload()
    assert not file.reload()
    path.unlink()
    assert not file.reload()
    with pytest.raises(BadRules, match="cannot be read"):
        file.reload()
    assert not file.reload()
    assert file.rules.super_users == {"User:a": 1}
    replace(path, "super User:c\n")
    assert not file.reload()
    assert file.reload()
    assert file.rules.super_users == {"User:c": 1}


def replace(path: Path, text: str) -> None:
    """Replaces the file as editors do: another file is renamed to it."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)
