"""A secret that nobody sees by accident: not in a repr, a log line, an error or a traceback."""

from typing import Final

HIDDEN: Final = "***"


class Secret:
    """A password, key or token, hidden in repr, logs, errors and tracebacks: only `reveal()` returns the text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Returns the secret text."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, format_spec: str) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __bool__(self) -> bool:
        return bool(self._text)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")
