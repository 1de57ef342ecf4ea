"""The first error of a reply of any type: its top-level error, or that of a nested element.

The positions of error fields follow from the types of a reply's fields, and are derived once per type.
"""

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, Final, get_args, get_origin, get_type_hints

from kcoord.errors import ErrorCode

_FIELD: Final = "error_code"

FirstError = Callable[[Any], ErrorCode]


def first_error(reply: object) -> ErrorCode:
    """Returns the first error code in a reply of any type, top-level before nested; ErrorCode.none if there is none."""
    kind: Any = type(reply)
    find = _finder(kind)
    return find(reply) if find else ErrorCode.none


@cache
def _finder(kind: Any) -> FirstError | None:
    """Returns the function that finds the first error in objects of a type, or None if it has no error fields."""
    hints = get_type_hints(kind)
    nested = [
        (attrgetter(name), find)
        for name, hint in hints.items()
        if (element := _element_type(hint)) and (find := _finder(element))
    ]
    if not nested:
        return attrgetter(_FIELD) if _FIELD in hints else None
    top_level: FirstError | None = attrgetter(_FIELD) if _FIELD in hints else None

    def find_first(reply: Any) -> ErrorCode:
        if top_level and (error := top_level(reply)):
            return error
        for lines_of, find in nested:
            for line in lines_of(reply):
                if error := find(line):
                    return error
        return ErrorCode.none

    return find_first


def _element_type(hint: Any) -> type | None:
    """Returns X for tuple[X, ...] if X has fields, else None."""
    arguments = get_args(hint)
    if get_origin(hint) is not tuple or len(arguments) != 2 or arguments[1] is not Ellipsis:
        return None
    element = arguments[0]
    return element if isinstance(element, type) and hasattr(element, "__annotations__") else None
