"""Parses a file of rules, one per line, as operators write it.

    super User:admin
    allow User:alice  read, describe  topic orders
    allow User:alice  read            group shop-*            # all groups whose names begin so
    allow User:*      describe        topic *                 # all topics
    deny  User:bob    all             topic "orders"          from 10.0.0.7
    allow User:ops    create, delete  cluster

Quoted names are literal, including blanks, `#` and `*`; a `*` behind the closing quote makes the name a prefix.

A rule that can never match is a mistake, and a dangerous one if it denies: such names and addresses are refused.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final, NamedTuple

from kcoord.exceptions import InvalidInput
from kcoord.security.fingerprints import fingerprint_of
from kcoord.security.rules import ANY, CLUSTER_NAME, EVERYBODY, OPERATIONS, Kind, Operation, Pattern, Rule, Rules

_WORD: Final = re.compile(
    r"""
    \s* (?:
        (?P<comment> \#.* )
      | " (?P<quoted> (?: [^"\\] | \\["\\] )* ) " (?P<star> \*? )
      | (?P<bare> [^\s"]+ )
    ) (?= \s | $ )
    """,
    re.VERBOSE,
)
_PERMISSIONS: Final = {"allow": False, "deny": True}
_KINDS: Final = {kind.name.lower(): kind for kind in Kind}
_EVERYWHERE: Final = "*"
_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # valid topic names and prefixes
_MAX_BYTES: Final = 16 * 1024 * 1024


class BadRules(InvalidInput, ValueError):
    """An error: a file of authorization rules cannot be used. The message states the line and what is wrong there."""


class _BadLine(InvalidInput):
    """A line that cannot be parsed; the message states why."""


class _Word(NamedTuple):
    """A word of a line."""

    text: str
    is_quoted: bool = False
    has_star: bool = False  # whether a * follows the closing quote


class RulesFile:
    """The authorization rules of a file that may change while it is in use. `rules` are those in force."""

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises BadRules."""
        self.path = path
        self._loaded_fingerprint = self._seen_fingerprint = fingerprint_of(path)
        self.rules = read_rules_file(path)

    def reload(self) -> bool:
        """Reloads the file if it has changed, and returns whether it did; to be called periodically.

        Raises BadRules once for each new content that cannot be used; the previous rules stay in force.
        """
        last, self._seen_fingerprint = self._seen_fingerprint, fingerprint_of(self.path)
        if self._seen_fingerprint == self._loaded_fingerprint or self._seen_fingerprint != last:
            return False  # unchanged, or still being written: a partial file must not be loaded
        self._loaded_fingerprint = self._seen_fingerprint
        self.rules = read_rules_file(self.path)
        return True


def read_rules_file(path: Path) -> Rules:
    """Reads and parses a file of authorization rules. Raises BadRules."""
    return read_rules(rules_text(path), str(path))


def rules_text(path: Path) -> str:
    """Reads the text of a file of authorization rules. Raises BadRules."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise BadRules(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(content) > _MAX_BYTES:
        raise BadRules(f"{path}: is larger than {_MAX_BYTES} bytes; is it a file of rules?")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadRules(f"{path}, line {line}: is not UTF-8 text") from None


def read_rules(text: str, name: str) -> Rules:
    """Parses the text of a file of authorization rules; `name` is for error messages. Raises BadRules."""
    rules: list[Rule] = []
    super_users: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            match _words(line):
                case []:
                    continue
                case [first, *rest] if first.text == "super":
                    super_users.setdefault(_super_user(rest), number)
                case [first, *rest]:
                    rules.append(_rule(number, first, rest))
        except _BadLine as wrong:
            raise BadRules(f"{name}, line {number}: {wrong}") from None
    return Rules(rules=tuple(rules), super_users=super_users)


def operation_named(text: str) -> Operation:
    """Parses the name of an operation such as `describe-configs`, in any case, also with Kafka's underscores. Raises
    BadRules.
    """
    try:
        return Operation[text.upper().replace("-", "_")]
    except KeyError:
        raise BadRules(f"{text!r} is no operation; there are {_listed(Operation)}") from None


def possible_operations(kind: Kind) -> list[Operation]:
    """Returns the operations that authorization rules may name for a kind of resource."""
    return [*OPERATIONS[kind], *([Operation.DELETE] if kind is Kind.CLUSTER else [])]


def word_of(operation: Operation) -> str:
    """Formats an operation as a file of rules names it, such as `describe-configs`."""
    return operation.name.lower().replace("_", "-")


def address_of(text: str) -> str:
    """Normalizes the text of an IP address for comparison: an IPv4-mapped IPv6 address becomes IPv4. Raises
    ValueError.
    """
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        if address.scope_id:
            raise ValueError("a scope is known to this machine alone")
        address = address.ipv4_mapped or address
    return str(address)


def _words(line: str) -> list[_Word]:
    words: list[_Word] = []
    position = 0
    while line[position:].strip():
        found = _WORD.match(line, position)
        if found is None:
            raise _BadLine(f"a quote is not closed, or something sticks to it, in {line[position:].strip()!r}")
        position = found.end()
        if found["comment"] is not None:
            break
        if (bare := found["bare"]) is not None:
            if "#" in bare:
                raise _BadLine(f"{bare!r}: a comment begins behind a blank; a name with # stands in quotes")
            words.append(_Word(bare))
        else:
            words.append(_Word(re.sub(r"\\(.)", r"\1", found["quoted"]), is_quoted=True, has_star=bool(found["star"])))
    return words


def _super_user(words: list[_Word]) -> str:
    if len(words) != 1:
        raise _BadLine("super is followed by one principal, such as super User:admin")
    principal = _principal(words[0])
    if principal == EVERYBODY:
        raise _BadLine(f"not everybody can be a super user; without rules all is allowed to {EVERYBODY}")
    return principal


def _rule(number: int, permission: _Word, words: list[_Word]) -> Rule:
    if permission.text not in _PERMISSIONS:
        raise _BadLine(f"a rule begins with allow, deny or super, not with {permission.text!r}")
    if not words:
        raise _BadLine(f"{permission.text} whom?")
    kind_at = next((at for at, word in enumerate(words) if at and word.text in _KINDS and not word.is_quoted), None)
    if kind_at is None:
        raise _BadLine(f"it is not said on what: {', '.join(_KINDS)} are missing")
    kind = _KINDS[words[kind_at].text]
    pattern, rest = _pattern(kind, words[kind_at + 1 :])
    return Rule(
        line=number,
        is_denial=_PERMISSIONS[permission.text],
        principal=_principal(words[0]),
        operations=_operations(words[1:kind_at], kind),
        kind=kind,
        pattern=pattern,
        host=_host(rest),
    )


def _principal(word: _Word) -> str:
    kind, colon, name = word.text.partition(":")
    if kind != "User" or not colon or not name or word.has_star:
        raise _BadLine(f"{word.text!r} is no principal; one is written User:NAME")
    if "*" in name and word.text != EVERYBODY and not word.is_quoted:
        raise _BadLine(f"{word.text!r}: principals are named in full, or {EVERYBODY} for everybody")
    return word.text


def _operations(words: list[_Word], kind: Kind) -> frozenset[Operation]:
    names = " ".join(word.text for word in words).replace(",", " ").split()
    if not names:
        raise _BadLine(f"it is not said what: {_listed(Operation)}")
    try:
        operations = [operation_named(name) for name in names]
    except BadRules as error:
        raise _BadLine(str(error)) from None
    possible = possible_operations(kind)
    for operation in operations:
        if operation not in (*possible, Operation.ALL):
            raise _BadLine(
                f"{word_of(operation)} means nothing of a {kind.name.lower()}; there are {_listed(possible)}"
            )
    return frozenset(operations)


def _pattern(kind: Kind, words: list[_Word]) -> tuple[Pattern, list[_Word]]:
    """Parses the resource pattern; returns it with the remaining words."""
    if kind is Kind.CLUSTER:
        return Pattern(name=CLUSTER_NAME), words
    if not words:
        raise _BadLine(f"which {kind.name.lower()}? A name is missing, or * for all")
    word, *rest = words
    if word.is_quoted:
        name, is_prefix = word.text, word.has_star
    else:
        name, is_prefix = word.text.removesuffix("*"), word.text.endswith("*")
        if "*" in name:
            raise _BadLine(
                f"{word.text!r}: a * stands for the rest of a name, at its end; in quotes it is taken as it is"
            )
    if not name and not is_prefix:
        raise _BadLine("a name is empty")
    if kind is Kind.TOPIC and name and not _TOPIC_NAME.fullmatch(name):
        raise _BadLine(f"{name!r} can be no topic: their names are of ASCII letters, digits, '.', '_' and '-'")
    return Pattern(name=name, is_prefix=is_prefix) if name else ANY, rest


def _host(words: list[_Word]) -> str | None:
    match [word.text for word in words]:
        case []:
            return None
        case ["from", host] if host == _EVERYWHERE:
            return None
        case ["from", host]:
            try:
                return address_of(host)
            except ValueError:
                raise _BadLine(f"{host!r} is no address; hosts are compared by address, such as 10.0.0.7") from None
    raise _BadLine(f"nothing is expected but from ADDRESS at {words[0].text!r}")


def _listed(operations: Iterable[Operation]) -> str:
    return ", ".join(word_of(operation) for operation in operations)
