"""Kafka's wire protocol: frames, headers, and kio's entities validated, read and written; schemas and
record batches.
"""

import kcoord.errors  # noqa: F401 - it must come before kio; see there
