"""Interruption of a change in its middle, such as by Ctrl-C.

A change of many groups is a sequence of small steps, each of which the broker does or does not do. A user who
interrupts it wants to know afterwards which were done. So after the first request to stop, the step in flight is
awaited and no further one begins; only a second request, raised as a KeyboardInterrupt, cuts off the wait for an
answer.
"""

from typing import Final, Protocol


class Stop(Protocol):
    """The interface through which a change of the cluster asks whether the user wants to stop it, by Ctrl-C or
    SIGTERM."""

    def begin(self) -> None:
        """Marks the moment right before the first change. From then on the first Ctrl-C is not raised as an
        exception."""

    def is_asked(self) -> bool:
        """Whether the user has asked to stop, so that no further step of the change may begin."""


class _NeverStops:
    def begin(self) -> None:
        return

    def is_asked(self) -> bool:
        return False


NEVER: Final[Stop] = _NeverStops()
