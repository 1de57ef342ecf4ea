"""Named clusters in the user's config folder: contexts.toml, for its owner only, with secrets only by reference.

current = "prod"

[contexts.prod]
bootstrap = "kafka1:9093,kafka2:9093"
command_config = "/home/me/prod.properties"

[contexts.prod.settings]
"sasl.password" = "command:pass show kafka/prod"
"""

import json
import os
import re
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from kcoord.admin.connecting.client_settings import JAAS, BadJaas
from kcoord.admin.connecting.secrets import ADVICE, is_reference, is_secret_key
from kcoord.exceptions import InvalidInput

FILE: Final = "contexts.toml"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HEAD: Final = "# The contexts of kcoord: see kcoord context --help. Secrets stand here by reference only.\n"


class BadContexts(InvalidInput, ValueError):
    """An error of contexts.toml: the file cannot be read, a context does not exist, or a secret must not be stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A named cluster in the user's contexts.toml: how to connect to it."""

    bootstrap: str | None = None
    command_config: Path | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """All contexts (named clusters) of contexts.toml; `current` is the name of the one that commands use by default."""

    by_name: Mapping[str, Context] = field(default_factory=dict)
    current: str | None = None

    def named(self, name: str) -> Context:
        """Returns the context of this name. Raises BadContexts if there is none."""
        if name not in self.by_name:
            known = ", ".join(sorted(self.by_name)) or "there are none"
            raise BadContexts(f"there is no context {name!r} ({known}); kcoord context add makes one")
        return self.by_name[name]

    def with_context(self, name: str, context: Context) -> "Contexts":
        """Returns a copy with one context added or replaced. Raises BadContexts for a bad name or a secret that must
        not be stored."""
        if not _NAME.fullmatch(name):
            raise BadContexts(f"{name!r} cannot be the name of a context: letters, digits, dots, - and _ can")
        if not context.bootstrap and not context.command_config:
            raise BadContexts("a context needs -b, or a --command-config that has bootstrap.servers")
        for key, value in context.settings.items():
            if holds_plain_secret(key, value):
                raise BadContexts(f"{key} is a secret, which a context holds only by reference: {ADVICE}")
        return replace(self, by_name={**self.by_name, name: context}, current=self.current or name)

    def without(self, name: str) -> "Contexts":
        """Returns a copy without this context. Raises BadContexts if there is none of this name."""
        self.named(name)
        remaining = {other: context for other, context in self.by_name.items() if other != name}
        return replace(self, by_name=remaining, current=None if self.current == name else self.current)

    def with_current(self, name: str) -> "Contexts":
        """Returns a copy in which this context is the current one. Raises BadContexts if there is none of this name."""
        self.named(name)
        return replace(self, current=name)


def holds_plain_secret(key: str, value: str) -> bool:
    """Whether storing this client setting in a context would write a secret itself into contexts.toml."""
    if not is_secret_key(key) or is_reference(value):
        return False
    if key != JAAS:
        return True
    from kcoord.admin.connecting.jaas import login_module  # imported here: most contexts have no JAAS line

    try:
        options = login_module(value).options
    except BadJaas:
        return True  # an unreadable line is not stored either
    return any(is_secret_key(name) and not is_reference(secret.reveal()) for name, secret in options.items())


def contexts_path(environment: Mapping[str, str]) -> Path:
    """Returns the path of contexts.toml: in KCOORD_CONFIG_DIR, or in kcoord in the user's config folder
    (XDG_CONFIG_HOME, else ~/.config; macOS too)."""
    if folder := environment.get("KCOORD_CONFIG_DIR"):
        return Path(folder, FILE)
    home = environment.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path("~/.config").expanduser()) / "kcoord" / FILE


def permission_warning(path: Path) -> str | None:
    """Returns a warning if others than its owner may read the file, None otherwise."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None
    return f"{path} can be read by others (mode {mode:o}): chmod 600 {path}" if mode & 0o077 else None


def load(path: Path) -> Contexts:
    """Reads contexts.toml; without a file there are no contexts. Raises BadContexts with its name and line."""
    import tomllib  # imported here: most runs need none

    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Contexts()
    except UnicodeDecodeError:
        raise BadContexts(f"{path}: it is not UTF-8 text") from None
    except OSError as error:
        raise BadContexts(f"cannot read {path}: {error.strerror}") from None
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadContexts(_where(path, text, str(error))) from None
    return _contexts(path, document)


def save(path: Path, contexts: Contexts) -> None:
    """Writes contexts.toml atomically, so that a reader sees the old or the new one; mode 0600, its folder 0700."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{FILE}.")  # mode 0600 from the start
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_toml(contexts))
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError as error:  # the error of a full disk has no file name
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        Path(name).unlink(missing_ok=True)  # unless it was renamed


def _where(path: Path, text: str, problem: str) -> str:
    """Moves the line of a tomllib error, "… (at line 3, column 5)" or "… (at end of document)", in front of it."""
    found = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", problem, re.DOTALL)
    if not found:
        return f"{path}: {problem}"
    return f"{path}:{found[2] or text.count(chr(10)) + 1}: {found[1]}"


def _contexts(path: Path, document: dict[str, Any]) -> Contexts:
    tables = document.get("contexts", {})
    current = document.get("current")
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise BadContexts(f"{path}: contexts must be tables: [contexts.NAME]")
    if current is not None and not isinstance(current, str):
        raise BadContexts(f"{path}: current must be the name of a context")
    return Contexts(by_name={name: _context(path, name, table) for name, table in tables.items()}, current=current)


def _context(path: Path, name: str, table: dict[str, Any]) -> Context:
    settings = table.get("settings", {})
    unknown = table.keys() - {"bootstrap", "command_config", "settings"}
    if unknown:
        raise BadContexts(f"{path}: context {name}: {sorted(unknown)[0]!r} is not known")
    texts = {key: table[key] for key in ("bootstrap", "command_config") if key in table}
    if not isinstance(settings, dict):
        raise BadContexts(f"{path}: context {name}: settings must be a table")
    for key, value in {**texts, **settings}.items():
        if not isinstance(value, str):
            raise BadContexts(f"{path}: context {name}: {key} must be a text in quotes")
    command_config = table.get("command_config")
    return Context(
        bootstrap=table.get("bootstrap"),
        command_config=Path(command_config) if command_config else None,
        settings=settings,
    )


def _toml(contexts: Contexts) -> str:
    lines = [_HEAD]
    if contexts.current:
        lines.append(f"current = {_quoted(contexts.current)}\n")
    for name, context in sorted(contexts.by_name.items()):
        lines.append(f"\n[contexts.{_quoted(name)}]\n")
        if context.bootstrap:
            lines.append(f"bootstrap = {_quoted(context.bootstrap)}\n")
        if context.command_config:
            lines.append(f"command_config = {_quoted(str(context.command_config))}\n")
        if context.settings:
            lines.append(f"\n[contexts.{_quoted(name)}.settings]\n")
            lines += [f"{_quoted(key)} = {_quoted(value)}\n" for key, value in context.settings.items()]
    return "".join(lines)


def _quoted(text: str) -> str:
    """Quotes a text. TOML's basic strings are JSON's, except for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
