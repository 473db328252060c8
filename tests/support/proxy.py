"""A TCP proxy of our own that closes, hangs, slows down and cuts one way on demand."""

import asyncio
import socket
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

#: Bytes that are passed on at once.
PIECE = 64 * 1024
#: Seconds between two looks of a connection that hangs.
LOOK = 0.02


@dataclass
class Ways:
    """What becomes of bytes; both directions of all connections look here."""

    #: Bytes to the server, and from it, are kept back: nobody is told.
    up: bool = True
    down: bool = True
    #: Bytes for each second, or as fast as they come.
    rate: float | None = None


class Proxy:
    """Passes on to one address, from a thread of its own."""

    def __init__(self, target: tuple[str, int], listener: socket.socket | None = None) -> None:
        self._target = target
        self._listener = listener or socket.create_server(("127.0.0.1", 0))
        host, port = self._listener.getsockname()[:2]
        self.address: tuple[str, int] = (host, port)
        self.ways = Ways()
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, sock=self._listener))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def hang(self) -> None:
        """All connections stay open, and nothing passes; new ones are taken, and hang too."""
        self.ways.up = self.ways.down = False

    def cut(self, *, up: bool) -> None:
        """One way only."""
        self.ways.up, self.ways.down = not up, up

    def slow(self, rate: float) -> None:
        self.ways.rate = rate

    def mend(self) -> None:
        self.ways.up = self.ways.down = True
        self.ways.rate = None

    def close_all(self) -> int:
        """Resets every connection; how many there were."""
        return int(self._do(self._reset())) // 2

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _serve(self, near: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        try:
            far, onward = await asyncio.open_connection(*self._target)
        except OSError:
            answer.transport.abort()
            return
        pair = {answer, onward}
        self._writers |= pair
        try:
            await asyncio.gather(self._pass(near, onward, "up"), self._pass(far, answer, "down"))
        finally:
            self._writers -= pair
            for writer in pair:
                writer.transport.abort()

    async def _pass(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: str
    ) -> None:
        with suppress(OSError):
            while piece := await source.read(PIECE):
                while not getattr(self.ways, way):
                    await asyncio.sleep(LOOK)
                if self.ways.rate is not None:
                    await asyncio.sleep(len(piece) / self.ways.rate)
                sink.write(piece)
                await sink.drain()
            sink.write_eof()

    async def _reset(self) -> int:
        writers = list(self._writers)
        for writer in writers:
            writer.transport.abort()
        return len(writers)

    async def _end(self) -> None:
        self._server.close()
        await self._reset()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
