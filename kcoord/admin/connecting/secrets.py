"""Secrets by reference: a setting names a source, and the secret is fetched when a connection is made.

env:NAME        the environment variable NAME
file:PATH       the file, without its last line end
command:…       the output of the command, without its last line end; words are split as in a shell, nothing more
text:…          the rest literally, for a secret that looks like one of these

Commands are only for users who type them, with -X or into a context. A file may come from anywhere: no command of a
file is run.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kcoord.client.connect_errors import in_one_line
from kcoord.client.secret import Secret
from kcoord.exceptions import InvalidInput

__all__ = [
    "ADVICE",
    "BadReference",
    "Secret",
    "holds_secret",
    "is_reference",
    "is_secret_key",
    "resolve",
    "resolve_without_commands",
]

COMMAND_TIMEOUT: Final = 30.0
ADVICE: Final = "say env:NAME, file:PATH or command:… instead"

_SCHEMES: Final = ("env", "file", "command", "text")
_SECRET_WORDS: Final = ("password", "secret", "passphrase", "credential", "user.info", "private.key")
_SECRET_KEYS: Final = frozenset(
    {"ssl.key.pem", "ssl.keystore.key", "sasl.jaas.config", "sasl.oauthbearer.assertion.private.key.pem"}
)
_SECRET_IN_JAAS: Final = re.compile(r"(?:password|secret)\w*\s*=\s*[\"']?(?!env:|file:|command:|[\"'])", re.IGNORECASE)


class BadReference(InvalidInput, ValueError):
    """An error: a setting refers to a secret (env:NAME, file:PATH, command:…) that does not exist or cannot be read."""


def is_secret_key(key: str) -> bool:
    """Whether the value of the client setting of this name is a secret, which must not be shown."""
    lowered = key.lower()
    return lowered in _SECRET_KEYS or any(word in lowered for word in _SECRET_WORDS)


def is_reference(value: str) -> bool:
    """Whether a setting's value refers to a secret (env:, file: or command:) instead of being one."""
    scheme, colon, _ = value.partition(":")
    return bool(colon) and scheme in _SCHEMES[:3]


def holds_secret(key: str, value: str) -> bool:
    """Whether a setting's value is a secret itself, and not a reference to one. A JAAS line may contain references."""
    if not value or not is_secret_key(key) or is_reference(value):
        return False
    return key.lower() != "sasl.jaas.config" or _SECRET_IN_JAAS.search(value) is not None


def resolve(key: str, value: str, environment: Mapping[str, str] = os.environ) -> Secret:
    """Returns the secret that a setting's value is or refers to (env:, file:, command:). Raises BadReference, which
    names the key and the source."""
    scheme, colon, target = value.partition(":")
    if not colon or scheme not in _SCHEMES:
        return Secret(value)
    match scheme:
        case "env":
            return _from_environment(key, target, environment)
        case "file":
            return _from_file(key, target)
        case "command":
            return _from_command(key, target)
        case _:
            return Secret(target)


def resolve_without_commands(key: str, value: str, environment: Mapping[str, str]) -> Secret:
    """Resolves the secret of a setting in a file. Raises BadReference, also for command:, which runs a program."""
    if value.startswith("command:"):
        raise BadReference(
            f"{key}: command: runs a program, which no file may ask for; say it by -X or in a context, or say env:NAME"
            " or file:PATH here (text:command:… is a secret that begins so)"
        )
    return resolve(key, value, environment)


def _from_environment(key: str, name: str, environment: Mapping[str, str]) -> Secret:
    if name not in environment:
        raise BadReference(f"{key}: the environment variable {in_one_line(name)} is not set")
    return Secret(environment[name])


def _from_file(key: str, path: str) -> Secret:
    try:
        return Secret(_without_line_end(Path(path).expanduser().read_text()))
    except UnicodeDecodeError:
        raise BadReference(f"{key}: {in_one_line(path)} is not a text file") from None
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadReference(f"{key}: cannot read {in_one_line(path)}: {reason}") from None


def _from_command(key: str, command: str) -> Secret:
    import shlex  # imported here: most settings have no command
    import subprocess

    shown = f"{key}: the command {in_one_line(command)!r}"
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadReference(f"{shown} cannot be split into words: {error}") from None
    if not words:
        raise BadReference(f"{key}: command: needs a command")
    try:
        done = subprocess.run(  # noqa: S603 - the user's own command
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise BadReference(f"{shown} did not end within {COMMAND_TIMEOUT:g} s") from None
    except OSError as error:
        raise BadReference(f"{shown} cannot be run: {error.strerror}") from None
    if done.returncode:
        output = in_one_line(done.stderr.decode(errors="replace").strip()) or "it said nothing"
        raise BadReference(f"{shown} failed with exit code {done.returncode}: {output}")
    try:
        return Secret(_without_line_end(done.stdout.decode()))
    except UnicodeDecodeError:
        raise BadReference(f"{shown} printed what is no text") from None


def _without_line_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")
