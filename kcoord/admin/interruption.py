"""A request to stop that comes in the middle of a change, such as Ctrl-C.

A change of many groups is a row of small steps, each of which the broker does or does not do. Who asks for an end wants
to know afterwards which were done. So a step that is on its way is waited for and no further one is begun; only a
second request, raised as a KeyboardInterrupt, cuts off the wait for an answer.
"""

from typing import Final, Protocol


class Stop(Protocol):
    def begin(self) -> None:
        """Called right before anything is changed: from then on the first request to stop must not be raised."""

    def is_asked(self) -> bool:
        """Whether no further step is to be begun."""


class _NeverStops:
    def begin(self) -> None:
        return

    def is_asked(self) -> bool:
        return False


NEVER: Final[Stop] = _NeverStops()
