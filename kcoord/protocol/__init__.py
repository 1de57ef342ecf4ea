"""Bytes to kio's entities and back: frames, headers, checks, writers, record batches, a client and its layouts."""

import kcoord.errors  # noqa: F401 - it must come before kio; see there
