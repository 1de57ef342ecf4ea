"""The file of users: one SCRAM credential per user and mechanism, never a password. PLAIN is verified with them, too.

{
  "kcoord": "users/v1",
  "decoy": "<base64>",
  "users": {
    "alice": {
      "SCRAM-SHA-256": {"salt": "<base64>", "iterations": 8192, "stored_key": "<base64>", "server_key": "<base64>"},
      "SCRAM-SHA-512": {...}
    }
  }
}

A login as an unknown user takes the same steps as one with a wrong password: there is a credential for every name. For
unknown names it is derived from the decoy, always the same, and no password matches it.
"""

import hmac
import json
import logging
import os
import secrets
import stat
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

from kcoord.client.connect_errors import in_one_line
from kcoord.client.scram import FEWEST_ITERATIONS, HASHES, MOST_ITERATIONS, Credential, keys
from kcoord.client.secret import Secret
from kcoord.exceptions import InvalidInput
from kcoord.security.fingerprints import fingerprint_of

log = logging.getLogger("kcoord.security")

DEFAULT_ITERATIONS: Final = 8192
_FORMAT: Final = "users/v1"
_SALT_BYTES: Final = 24
_DECOY_BYTES: Final = 32
MAX_NAME_BYTES: Final = 255
"""The longest user name, in bytes."""
_CHECK_MECHANISM: Final = "SCRAM-SHA-512"

Credentials = Mapping[str, Credential]
"""The credentials of a user, one for each mechanism."""


class BadUsers(InvalidInput, ValueError):
    """An error: a file of users cannot be used, a user name is invalid, or a user does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """The users that may log in by SASL, with their SCRAM credentials. `decoy` is a secret for made-up credentials of
    unknown names.
    """

    by_name: Mapping[str, Credentials] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    decoy: bytes = field(repr=False)

    @classmethod
    def nobody(cls) -> Self:
        """Returns an empty set of users."""
        return cls(decoy=secrets.token_bytes(_DECOY_BYTES))

    def credential(self, name: str, mechanism: str) -> Credential:
        """Returns the user's SCRAM credential; for an unknown name, one that no password matches."""
        known = self.by_name.get(name)
        decoy = self._decoy(name, mechanism)  # always computed, so that timing does not reveal which names exist
        return known[mechanism] if known else decoy

    def is_password(self, name: str, password: Secret) -> bool:
        """Whether this is the user's password. The check takes milliseconds, because of the iterations of SCRAM."""
        expected = self.credential(name, _CHECK_MECHANISM)
        made = keys(_CHECK_MECHANISM, password.reveal(), expected.salt, expected.iterations)
        return hmac.compare_digest(made.stored, expected.stored)

    def with_user(self, name: str, password: Secret, *, iterations: int = DEFAULT_ITERATIONS) -> Self:
        """Returns a copy with this user added, or with the user's new password. Raises BadUsers."""
        if not name or not name.isprintable() or len(name.encode()) > MAX_NAME_BYTES:
            raise BadUsers(f"a user's name has 1 to {MAX_NAME_BYTES} printable characters, not {in_one_line(name)!r}")
        if not password or "\0" in password.reveal():
            raise BadUsers(f"the password of {name} is {'not one that PLAIN can carry' if password else 'empty'}")
        made = {
            mechanism: Credential.of(mechanism, password.reveal(), secrets.token_bytes(_SALT_BYTES), iterations)
            for mechanism in HASHES
        }
        return replace(self, by_name={**self.by_name, name: made})

    def without(self, name: str) -> Self:
        """Returns a copy without this user. Raises BadUsers if there is no such user."""
        if name not in self.by_name:
            raise BadUsers(f"there is no user {in_one_line(name)!r}")
        return replace(self, by_name={other: made for other, made in self.by_name.items() if other != name})

    def _decoy(self, name: str, mechanism: str) -> Credential:
        def of(what: str) -> bytes:
            return hmac.digest(self.decoy, f"{what}\0{mechanism}\0{name}".encode(errors="replace"), HASHES[mechanism])

        likeness = self._imitated_credential(of("likeness"), mechanism)
        salt_bytes = len(likeness.salt) if likeness else _SALT_BYTES
        return Credential(
            salt=of("salt")[:salt_bytes],
            iterations=likeness.iterations if likeness else DEFAULT_ITERATIONS,
            stored=of("stored"),
            server=of("server"),
        )

    def _imitated_credential(self, chance: bytes, mechanism: str) -> Credential | None:
        """Returns a real user's credential, whose iterations and salt length the decoy imitates: both may vary."""
        if not self.by_name:
            return None
        names = tuple(self.by_name)
        return self.by_name[names[int.from_bytes(chance[:8]) % len(names)]][mechanism]


class UsersFile:
    """A file of users that may change while it is in use; the constructor raises BadUsers if it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fingerprint = fingerprint_of(path)
        self._users = read_users(path)

    def current(self) -> Users:
        """Returns the current users, read again if the file has changed. If it has become unreadable, the previous
        users stay, with one log line.
        """
        fingerprint = fingerprint_of(self._path)
        if fingerprint != self._fingerprint:
            self._fingerprint = fingerprint
            try:
                self._users = read_users(self._path)
            except BadUsers as error:
                log.warning("users unchanged why=%r", str(error))
            else:
                log.info("users file=%s users=%s", self._path.name, len(self._users.by_name))
        return self._users


def read_users(path: Path) -> Users:
    """Reads a file of users and their credentials. Raises BadUsers, with a message of one line that contains nothing of
    a credential.
    """
    try:
        return _parsed(_json(path.read_bytes()))
    except OSError as error:
        advice = "; kcoord users add makes it" if isinstance(error, FileNotFoundError) else ""
        raise BadUsers(f"cannot read the users in {path}: {error.strerror}{advice}") from None
    except BadUsers as error:
        raise BadUsers(f"{path} is no file of users: {error}") from None


@contextmanager
def editing_users(path: Path) -> Iterator[list[Users]]:
    """Opens a file of users for a change: yields a list with the users as its one element, to be replaced, and writes
    the file when the block ends.

    A lock lets only one process at a time change the file.
    """
    import fcntl

    target = path.resolve()
    try:
        folder = os.open(target.parent, os.O_RDONLY)
    except OSError as error:
        raise BadUsers(f"cannot write {path}: {error.strerror}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # the folder is locked, because the file itself is replaced
        users = [read_users(target) if target.exists() else Users.nobody()]
        yield users
        _write(target, users[0])
    finally:
        os.close(folder)


def is_open_to_others(path: Path) -> bool:
    """Whether others than its owner may read the file: with a credential, passwords can be tried offline."""
    return bool(path.stat().st_mode & 0o077)


def _write(path: Path, users: Users) -> None:
    """Replaces the file atomically. A new file is readable by its owner only; otherwise ownership and mode stay."""
    staged = None
    try:
        descriptor, staged = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # with mode 0600
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            _copy_ownership(descriptor, path)
            json.dump(_document(users), file, indent=2, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        Path(staged).replace(path)
    except OSError as error:
        if staged is not None:
            Path(staged).unlink(missing_ok=True)
        raise BadUsers(f"cannot write {path}: {error.strerror}") from None


def _copy_ownership(descriptor: int, path: Path) -> None:
    """Copies owner and mode of the previous file: an operator may edit users of a server under another account."""
    with suppress(FileNotFoundError, PermissionError):  # without permission, the operator stays the owner
        before = path.stat()
        os.fchown(descriptor, before.st_uid, before.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _document(users: Users) -> dict[str, Any]:
    return {
        "kcoord": _FORMAT,
        "decoy": _text(users.decoy),
        "users": {
            name: {mechanism: _credential_document(made) for mechanism, made in users.by_name[name].items()}
            for name in sorted(users.by_name)
        },
    }


def _credential_document(made: Credential) -> dict[str, Any]:
    return {
        "salt": _text(made.salt),
        "iterations": made.iterations,
        "stored_key": _text(made.stored),
        "server_key": _text(made.server),
    }


def _json(content: bytes) -> Any:
    try:
        return json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadUsers(f"line {line} is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        what = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
        raise BadUsers(f"it is not JSON: {what} at line {error.lineno}, column {error.colno}") from None
    except (ValueError, RecursionError):  # these errors have no position
        raise BadUsers("a number in it is too long, or it is nested too deeply") from None


def _parsed(document: Any) -> Users:
    if _field(document, "kcoord", "") != _FORMAT:
        raise BadUsers(f"its format is not {_FORMAT}")
    users = _object(_field(document, "users", ""), "'users'")
    by_name = {name: _parsed_user(name, made) for name, made in users.items()}
    return Users(by_name=MappingProxyType(by_name), decoy=_bytes(document, "decoy", "", _DECOY_BYTES))


def _parsed_user(name: str, document: Any) -> Credentials:
    whose = f"user {in_one_line(name)!r}"
    return {each: _parsed_credential(each, _field(document, each, whose), f"{whose}, {each}") for each in HASHES}


def _parsed_credential(mechanism: str, document: Any, where: str) -> Credential:
    key_bytes = hmac.new(b"", digestmod=HASHES[mechanism]).digest_size
    iterations = _field(document, "iterations", where)
    if not isinstance(iterations, int) or not FEWEST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise BadUsers(f"{where}: 'iterations' is not a number from {FEWEST_ITERATIONS} to {MOST_ITERATIONS}")
    return Credential(
        salt=_bytes(document, "salt", where),
        iterations=iterations,
        stored=_bytes(document, "stored_key", where, key_bytes),
        server=_bytes(document, "server_key", where, key_bytes),
    )


def _text(content: bytes) -> str:
    return b64encode(content).decode()


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadUsers(f"{what} is not an object in braces")
    return value


def _field(document: Any, name: str, where: str) -> Any:
    """Returns a field of a document. `where` names the document for error messages; empty for the whole file."""

    fields = _object(document, where or "it")
    if name not in fields:
        raise BadUsers(f"{_prefix(where)}{name!r} is missing")
    return fields[name]


def _bytes(document: Any, name: str, where: str, size: int | None = None) -> bytes:
    text = _field(document, name, where)
    try:
        content = b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise BadUsers(f"{_prefix(where)}{name!r} is not base64") from None
    if not content:
        raise BadUsers(f"{_prefix(where)}{name!r} is empty")
    if size not in (None, len(content)):
        raise BadUsers(f"{_prefix(where)}{name!r} has not the {size} bytes that it must have")
    return content


def _prefix(where: str) -> str:
    return f"{where}: " if where else ""
