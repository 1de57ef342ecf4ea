"""A member of a group in a separate process, as a scenario controls it: commands go in, events come out."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from kcoord.testing.process import CapturedProcess, temporary_folder
from tests.clients.group_members.member import Join
from tests.clients.group_members.programs import Programs

LEAVE_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of output of a member; tests/clients/group_members/member.py documents each kind and its fields."""

    kind: str
    at: float
    generation: int
    member: str
    partitions: frozenset[str] = frozenset()
    owned: frozenset[str] | None = None
    partition: str = ""
    first: int = -1
    last: int = -1
    offsets: Mapping[str, int] = field(default_factory=dict)
    error: str = ""

    @classmethod
    def from_line(cls, line: str) -> "Event":
        values: dict[str, Any] = json.loads(line)
        values["kind"] = values.pop("event")
        for name in values.keys() & {"partitions", "owned"}:
            values[name] = frozenset(values[name])
        return cls(**values)

    def __str__(self) -> str:
        """Formats the fields that differ from the defaults."""
        parts = [f"{self.at:.3f} {self.kind} generation={self.generation} member={self.member}"]
        if self.owned is not None:
            parts.append(f"partitions={sorted(self.partitions)} owned={sorted(self.owned)}")
        if self.partition:
            parts.append(f"{self.partition} {self.first}..{self.last}")
        if self.offsets:
            parts.append(f"offsets={dict(self.offsets)}")
        return " ".join([*parts, self.error])


class Member:
    """One client, by its name in the scenario."""

    def __init__(self, programs: Programs, *, client: str, name: str, config: Join) -> None:
        """Starts the process at once, so that many can start in parallel; it joins on command."""
        self.client, self.name, self.config = client, name, config
        self.has_joined = False
        self.is_killed = False
        self.was_paused = False
        launcher = programs.launcher(client)
        folder = temporary_folder()
        self._process = CapturedProcess(launcher(Path(folder.name)), name=f"{client} as {name}", folder=folder)
        self._events: list[Event] = []
        self._read_chars = 0

    @property
    def owner(self) -> str:
        """The identity that survives restarts: a static member's instance."""
        return self.config.instance_id or self.name

    @property
    def is_running(self) -> bool:
        return self._process.exit_code is None

    @property
    def member_id(self) -> str:
        events = self.events()
        return events[-1].member if events else ""

    @property
    def generation(self) -> int:
        events = self.events()
        return events[-1].generation if events else -1

    @property
    def owned(self) -> frozenset[str]:
        return next((event.owned for event in reversed(self.events()) if event.owned is not None), frozenset())

    def events(self, *kinds: str) -> list[Event]:
        """Returns the events so far, of these kinds or all."""
        unread = self._process.stdout()[self._read_chars :]
        complete = unread[: unread.rfind("\n") + 1]
        self._read_chars += len(complete)
        self._events += map(Event.from_line, complete.splitlines())
        return [event for event in self._events if event.kind in kinds] if kinds else self._events

    def join(self) -> None:
        self._send("join", **{each.name: getattr(self.config, each.name) for each in fields(self.config)})
        self.has_joined = True

    def pause(self) -> None:
        self._send("pause")
        self.was_paused = True

    def resume(self) -> None:
        self._send("resume")

    def commit(self) -> None:
        self._send("commit")

    def leave(self) -> None:
        """Leaves the group, and waits until that is done."""
        self._send("leave")
        exit_code = self._process.wait(LEAVE_TIMEOUT)
        assert exit_code == 0, f"{self} left with exit code {exit_code}\n{self.last_output()}"

    def kill(self) -> None:
        """Kills the process with SIGKILL."""
        self._process.kill()
        self.is_killed = True

    def stop(self) -> None:
        """Ends the process in any state: the scenario is over."""
        self._process.kill()

    def last_output(self) -> str:
        return self._process.output_tail()

    def __str__(self) -> str:
        return f"{self.name} ({self.client})"

    def _send(self, command: str, **arguments: Any) -> None:
        self._process.send(json.dumps({"do": command, **arguments}) + "\n")
