"""File descriptors: the limit of this process, and the shares of it.

    RLIMIT_NOFILE = open at the start + files of records + connections + a reserve

| share       | for                                                                       | at most              |
|-------------|---------------------------------------------------------------------------|----------------------|
| records     | segments, or files without names                                          | a quarter, and 4,096 |
| reserve     | modules that are imported at first use, checkpoints, connections that are | a quarter, and 256   |
|             | accepted only to be refused, TLS alerts, the metrics port                 |                      |
| connections | clients; a client of a proxy needs a second one, to a broker              | the remainder        |

So serving always has a descriptor left, however many clients connect.
"""

import resource
from pathlib import Path
from typing import Final

_SHARE: Final = 4
_MAX_FOR_RECORDS: Final = 4096
_MAX_RESERVE: Final = 256
_ESTIMATED_OPEN: Final = 32


def descriptor_limit() -> int:
    """Returns the limit of open file descriptors of this process (RLIMIT_NOFILE)."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def files_for_records(limit: int) -> int:
    """Returns how many of `limit` file descriptors may be used for log segments."""
    return min(limit // _SHARE, _MAX_FOR_RECORDS)


def connection_capacity(limit: int, *, opened: int, per_client: int = 1) -> int:
    """Returns how many clients can be served with `limit` file descriptors, of which `opened` are in use, if each
    client takes `per_client`.
    """
    reserve = min(limit // _SHARE, _MAX_RESERVE)
    return max(1, (limit - opened - files_for_records(limit) - reserve) // per_client)


def open_descriptors() -> int:
    """Returns the number of open file descriptors, or an estimate where the system does not list them."""
    try:
        return len(list(Path("/dev/fd").iterdir()))
    except OSError:
        return _ESTIMATED_OPEN
