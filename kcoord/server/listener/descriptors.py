"""File descriptors: how many this process may have open, and who may have how many of them.

    RLIMIT_NOFILE = open at the start + files of records + connections + a reserve

| share       | for                                                                       | at most              |
|-------------|---------------------------------------------------------------------------|----------------------|
| records     | segments, or files without names                                          | a quarter, and 4,096 |
| reserve     | modules that are imported at first use, checkpoints, connections that are | a quarter, and 256   |
|             | refused once they are accepted, TLS alerts, the metrics port              |                      |
| connections | clients; through a proxy each needs another one, to a broker              | all the rest         |

So there is a descriptor left for everything that serving needs, however many clients come.
"""

import resource
from pathlib import Path
from typing import Final

_SHARE: Final = 4
_MOST_FOR_RECORDS: Final = 4096
_MOST_IN_RESERVE: Final = 256
_USUALLY_OPEN: Final = 32


def descriptor_limit() -> int:
    """Returns how many descriptors this process may have."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def files_for_records(limit: int) -> int:
    return min(limit // _SHARE, _MOST_FOR_RECORDS)


def most_connections(limit: int, *, opened: int, per_client: int = 1) -> int:
    """Returns how many clients there is room for, where each of them takes so many descriptors."""
    reserve = min(limit // _SHARE, _MOST_IN_RESERVE)
    return max(1, (limit - opened - files_for_records(limit) - reserve) // per_client)


def open_descriptors() -> int:
    """Returns how many are open now; an estimate where the system does not tell."""
    try:
        return len(list(Path("/dev/fd").iterdir()))
    except OSError:
        return _USUALLY_OPEN
