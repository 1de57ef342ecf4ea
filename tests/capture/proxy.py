"""A TCP proxy between clients and a broker that records every frame it forwards.

The broker must advertise the proxy's address, or clients bypass it after their first Metadata request.
"""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.capture.frames import CapturedFrame


class RecordingProxy:
    """Forwards connections to `upstream` and files the frames under the name of the client that runs now."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        self.client = "nobody"
        self.captured: list[CapturedFrame] = []
        self._upstream = upstream
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @asynccontextmanager
    async def listening(self, port: int) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._carry, "127.0.0.1", port)
        try:
            yield
        finally:
            server.close()
            for to_client in self._connections.values():
                to_client.close()
            await asyncio.gather(*self._connections)
            await server.wait_closed()

    async def _carry(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Forwards one connection, until either side hangs up."""
        connection = asyncio.current_task()
        assert connection is not None
        self._connections[connection] = to_client
        from_broker, to_broker = await asyncio.open_connection(*self._upstream)
        asked: dict[int, tuple[int, int]] = {}
        pumps = [
            asyncio.create_task(self._pump_requests(from_client, to_broker, asked)),
            asyncio.create_task(self._pump_responses(from_broker, to_client, asked)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            to_broker.close()
            to_client.close()
            del self._connections[connection]

    async def _pump_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: dict[int, tuple[int, int]]
    ) -> None:
        while frame := await _next_frame(reader):
            api_key, api_version, correlation_id = struct.unpack_from(">hhi", frame)
            asked[correlation_id] = api_key, api_version
            self.captured.append(
                CapturedFrame(client=self.client, api_key=api_key, api_version=api_version, kind="request", frame=frame)
            )
            await _send(writer, frame)

    async def _pump_responses(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: dict[int, tuple[int, int]]
    ) -> None:
        while frame := await _next_frame(reader):
            (correlation_id,) = struct.unpack_from(">i", frame)
            api_key, api_version = asked.pop(correlation_id)
            self.captured.append(
                CapturedFrame(
                    client=self.client, api_key=api_key, api_version=api_version, kind="response", frame=frame
                )
            )
            await _send(writer, frame)


async def _next_frame(reader: asyncio.StreamReader) -> bytes | None:
    """Returns the next frame without its length; None when the peer has hung up."""
    try:
        length = int.from_bytes(await reader.readexactly(4))
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def _send(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(len(frame).to_bytes(4) + frame)
    await writer.drain()
