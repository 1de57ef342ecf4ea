"""The user's cache folder, safe for several processes at once."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..errors import ResolveError


def cache_folder() -> Path:
    """Returns the folder where Kafka's jars are cached: <cache>/kcoord/kafka."""
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base, "kcoord", "kafka").absolute()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds a lock on the folder against other processes while the `with` block runs; it ends with the process, however
    that ends."""
    with _lock_file(folder) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _lock_file(folder: Path) -> IO[bytes]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return folder.joinpath(".lock").open("wb")
    except OSError as error:
        message = f"the cache folder cannot be written ({error}): set XDG_CACHE_HOME to one that can"
        raise ResolveError(message) from error
