"""kio's native reader, imported without asyncio: kio names an asyncio class in one type, and never uses it for reading.

A command that sends one request would spend a tenth of its time on that import.
"""

import sys
from types import ModuleType

_must_stub_asyncio = "asyncio" not in sys.modules
if _must_stub_asyncio:
    _asyncio_stub = ModuleType("asyncio")
    _asyncio_stub.StreamWriter = object  # type: ignore[attr-defined]
    sys.modules["asyncio"] = _asyncio_stub

try:
    from kio.serial import entity_reader
    from kio.serial.errors import SerialError
finally:
    if _must_stub_asyncio:
        del sys.modules["asyncio"]  # Deleted also if the import failed: nobody else must take the stub for asyncio.

__all__ = ["SerialError", "entity_reader"]
