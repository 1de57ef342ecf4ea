"""Files for users: read with every field checked, and written atomically."""

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from kcoord.exceptions import InvalidInput

Kind = TypeVar("Kind", str, int)
INT64 = range(-(2**63), 2**63)


class BadDocument(InvalidInput, ValueError):
    """An error: a file of offsets, an offset plan or an undo file is not valid. The message says where, and what is
    wrong."""


class Fields:
    """A JSON object of a user's file, whose fields are read by name, each checked for its type; a wrong one raises
    BadDocument. `where` locates the object in error messages."""

    def __init__(self, found: object, where: str) -> None:
        if not isinstance(found, dict):
            raise BadDocument(f"{where} is not an object")
        self._found: Mapping[str, Any] = found
        self.where = where

    def text(self, name: str, default: str | None = None) -> str:
        """Returns a field that must be a string, or the default if there is none."""
        text = self._field(name, str, "a text", default)
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise BadDocument(f"{self.where}: {name!r} has half a character, which no text can have")
        return text

    def number(self, name: str, default: int | None = None) -> int:
        """Returns a field that must be an integer of 64 bits, or the default if there is none."""
        number = self._field(name, int, "a whole number", default)
        if number not in INT64:
            raise BadDocument(f"{self.where}: {name!r} is beyond 64 bits")
        return number

    def optional_text(self, name: str) -> str | None:
        """Returns a field that must be a string, or None if it is missing or null."""
        return None if self._found.get(name) is None else self.text(name)

    def optional_number(self, name: str) -> int | None:
        """Returns a field that must be an integer of 64 bits, or None if it is missing or null."""
        return None if self._found.get(name) is None else self.number(name)

    def optional_texts(self, name: str) -> list[str]:
        """Returns a field that must be a list of strings; an empty list if it is missing."""
        listed = self._found.get(name, [])
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise BadDocument(f"{self.where}: {name!r} is not a list of texts")
        return listed

    def is_true(self, name: str) -> bool:
        """Returns a field that must be true or false."""
        value = self._found.get(name)
        if not isinstance(value, bool):
            raise BadDocument(f"{self.where}: {name!r} is not true or false")
        return value

    def time(self, name: str) -> datetime:
        """Returns a field that must be a time in ISO 8601; without a zone it is UTC."""
        text = self.text(name)
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise BadDocument(f"{self.where}: {name!r} is not a time") from None
        return at if at.tzinfo else at.replace(tzinfo=UTC)

    def inner(self, name: str) -> "Fields":
        """Returns a field that must be an object, as Fields."""
        return Fields(self._found.get(name), f"{self.where}: {name!r}")

    def optional_inner(self, name: str) -> "Fields | None":
        """Returns a field that must be an object, as Fields; None if it is missing or null."""
        return None if self._found.get(name) is None else self.inner(name)

    def each(self, name: str) -> list["Fields"]:
        """Returns a field that must be a list of objects, each as Fields."""
        listed = self._found.get(name)
        if not isinstance(listed, list):
            raise BadDocument(f"{self.where}: {name!r} is not a list")
        return [Fields(found, f"{self.where}: {name}[{index}]") for index, found in enumerate(listed)]

    def _field(self, name: str, kind: type[Kind], called: str, default: Kind | None) -> Kind:
        value = self._found.get(name, default)
        if value is None and name not in self._found:
            raise BadDocument(f"{self.where}: {name!r} is missing")
        if not isinstance(value, kind) or isinstance(value, bool):
            raise BadDocument(f"{self.where}: {name!r} is not {called}")
        return value


def read_document(path: Path, what: str) -> Fields:
    """Reads a JSON file whose field `kcoord` must be `what`, such as "reset-plan/v1", and returns its top-level object.
    Raises BadDocument."""
    try:
        found = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise BadDocument(f"{path}:{error.lineno}: this is not JSON") from None
    except (RecursionError, ValueError) as error:  # nested too deeply; a number of thousands of digits
        if isinstance(error, BadDocument):
            raise
        raise BadDocument(f"{path}: this is not JSON that can be read") from None
    fields = Fields(found, str(path))
    kind = fields.optional_text("kcoord")
    if kind != what:
        name, _, version = (kind or "").partition("/")
        if name == what.partition("/")[0]:
            raise BadDocument(f"{path}: its version, {version!r}, is not known to this kcoord")
        raise BadDocument(f"{path}: this is no {what.partition('/')[0]} of kcoord, but {kind!r}")
    return fields


def read_text(path: Path) -> str:
    """Reads the text of a user's file, without a byte order mark. Raises BadDocument if it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise BadDocument(f"{path}:{line}: this is not a UTF-8 text") from None


def document_text(document: Mapping[str, Any]) -> str:
    """Formats a JSON object with indentation, as people read such files; control characters are escaped."""
    return json.dumps(document, indent=1).replace("\x7f", "\\u007f") + "\n"


def write_atomically(
    path: Path, text: str, *, overwrites: bool, advice: str = "take another name, or say --force"
) -> None:
    """Writes a file atomically: it is complete and on the disk, or not there at all.

    Unless it overwrites, an existing file raises FileExistsError with this advice; a device, a pipe or a folder raises
    it in any case. Only the owner may read the file (mode 0600), also if it replaces one that others could read: groups
    and their metadata may be confidential.

    Errors of the disk are raised with the name of the file. Every such file is written before anything is changed on a
    cluster, and the error says so: whoever finds a full disk after --execute must not have to wonder.
    """
    if overwrites and not is_replaceable(path):
        raise FileExistsError(f"{path} is no regular file: it is left as it is, take another name")
    try:
        _write_via_temporary(path, text, overwrites=overwrites, advice=advice)
        _sync_folder(path.parent)
    except OSError as error:
        if isinstance(error, FileExistsError) and error.strerror is None:
            raise  # it has its message already
        raise OSError(error.errno, f"{error.strerror}: it is not written, and nothing was changed", str(path)) from None


def is_replaceable(path: Path) -> bool:
    """Whether a file may be written under this name: nothing has it, or a regular file that can be replaced.

    A name in /dev or /proc is never replaced: /dev/stdout is a link, to a regular file where a shell has redirected it.
    """
    folder = path.parent.resolve()
    is_of_the_system = folder == Path("/dev") or folder.is_relative_to("/proc")
    return not path.exists() or (path.is_file() and not is_of_the_system)


def _write_via_temporary(path: Path, text: str, *, overwrites: bool, advice: str) -> None:
    temporary = path.with_name(f".kcoord-{os.urandom(8).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if overwrites:
            temporary.replace(path)
        elif not _publish(temporary, path):
            raise FileExistsError(f"{path} is there already: {advice}")
    finally:
        temporary.unlink(missing_ok=True)


def _publish(temporary: Path, path: Path) -> bool:
    """Gives the file its name if that is free: a link fails where a rename would replace."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        if path.exists():
            return False
        temporary.replace(path)
    return True


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
