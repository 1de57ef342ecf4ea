"""Kafka's error codes under kio's names: the one part of kio that every layer may use."""

import sys

# kio imports hypothesis wherever it is installed, to register strategies that only kio's tests use. That would triple
# the start-up time of a server in a test environment, so the import is blocked unless the process already uses it.
_blocks_hypothesis = "hypothesis" not in sys.modules
if _blocks_hypothesis:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]

from kio.schema.errors import ErrorCode  # noqa: E402

if _blocks_hypothesis:
    del sys.modules["hypothesis"]

__all__ = ["ErrorCode"]
