"""kio's native reader, without asyncio: kio names one of its classes in a type, and never uses it for reading.

A command that asks one question would pay a tenth of its time for that import.
"""

import sys
from types import ModuleType

_keep_asyncio_out = "asyncio" not in sys.modules
if _keep_asyncio_out:
    _stand_in = ModuleType("asyncio")
    _stand_in.StreamWriter = object  # type: ignore[attr-defined]
    sys.modules["asyncio"] = _stand_in

try:
    from kio.serial import entity_reader
    from kio.serial.errors import SerialError
finally:
    if _keep_asyncio_out:
        del sys.modules["asyncio"]  # also where the import failed: nobody else must take it for the real one

__all__ = ["SerialError", "entity_reader"]
