"""Parses Java's login configuration, the value of sasl.jaas.config.

    org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="a \\"quoted\\" one";

Kafka parses it with java.io.StreamTokenizer, whose rules these are: texts in double or single quotes with C's escapes,
bare words of letters, digits and -_$. that do not begin with a digit, comments of both kinds.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from kcoord.admin.connecting.client_settings import BadJaas
from kcoord.client.secret import Secret

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKENS: Final = re.compile(
    r"""(?P<skip>\s+|//[^\r\n]*|/\*.*?\*/)
      | (?P<quoted>"(?:\\.|[^"\\\r\n])*"|'(?:\\.|[^'\\\r\n])*')
      | (?P<word>[A-Za-z_$\u00a0-\uffff][\w$.\-]*)
      | (?P<number>-?[\d.][\w$.\-]*)
      | (?P<sign>[=;])
      | (?P<wrong>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_LETTERS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """The login module of a sasl.jaas.config, such as PlainLoginModule, with its options."""

    class_name: str
    options: dict[str, Secret]
    """All options: which of them are secret depends on the module."""

    @property
    def name(self) -> str:
        """The name of the module's Java class without its package."""
        return self.class_name.rpartition(".")[2]

    def option(self, name: str) -> str | None:
        """Returns the value of an option such as `username`, or None if the line does not have it."""
        found = self.options.get(name)
        return None if found is None else found.reveal()


class _Token(NamedTuple):
    kind: str
    text: str


def login_module(text: str) -> LoginModule:
    """Parses the one login module of a sasl.jaas.config. Raises BadJaas."""
    tokens = _tokens(text)
    module = _module(tokens)
    if next(tokens, None) is not None:
        raise BadJaas("sasl.jaas.config: there must be exactly one login module, ended by one ;")
    return module


def _module(tokens: Iterator[_Token]) -> LoginModule:
    class_name = next(tokens, None)
    if class_name is None or class_name.kind != "word":
        raise BadJaas("sasl.jaas.config: it must begin with the class of a login module")
    flag = next(tokens, None)
    if flag is None or flag.text.lower() not in _FLAGS:
        raise BadJaas(f"sasl.jaas.config: one of {', '.join(_FLAGS)} must follow {class_name.text}")
    options: dict[str, Secret] = {}
    for token in tokens:
        if token == ("sign", ";"):
            return LoginModule(class_name=class_name.text, options=options)
        options[token.text] = Secret(_value(token, tokens))
    raise BadJaas("sasl.jaas.config: it must end with ;")


def _value(name: _Token, tokens: Iterator[_Token]) -> str:
    if name.kind != "word":
        raise BadJaas('sasl.jaas.config: options are written name="value"')
    equals, value = next(tokens, None), next(tokens, None)
    if equals != ("sign", "=") or value is None or value.kind not in ("word", "text"):
        raise BadJaas(f'sasl.jaas.config: the option {name.text} must be followed by ="value", in quotes')
    return value.text


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKENS.finditer(text):
        kind = found.lastgroup or ""
        match kind:
            case "skip":
                continue
            case "quoted":
                yield _Token("text", _ESCAPE.sub(_unescape, found[0][1:-1]))
            case "wrong":
                what = "a quote that is never closed" if found[0] in "\"'" else "a character that needs quotes"
                raise BadJaas(f"sasl.jaas.config: {what}, at position {found.start() + 1}")
            case _:
                yield _Token(kind, found[0])


def _unescape(found: re.Match[str]) -> str:
    escape = found[1]
    return chr(int(escape, 8)) if escape[0] in "01234567" else _LETTERS.get(escape, escape)
