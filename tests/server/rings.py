"""With a lane and without; and whether the kernel of this machine has what it needs."""

import pytest

from kcoord.server.ring import Ring


def _why_not() -> str:
    try:
        Ring().close()
    except OSError as error:
        return str(error)
    return ""


_REASON = _why_not()
LANES: dict[str, dict[str, str]] = {"lane": {}, "no lane": {"kcoord.io.uring.enable": "false"}}
"""What is answered is the same with and without it."""
needs_ring = pytest.mark.skipif(bool(_REASON), reason=f"no io_uring on this machine: {_REASON}")
