"""Forward a TCP port of this machine to a Unix socket, for clients that know only TCP."""

import asyncio
from contextlib import contextmanager, suppress
from threading import Thread

from headway.client_connection import short_path


@contextmanager
def forwarded(run):
    """Yield the port that leads to the API of a run."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(
        asyncio.start_server(lambda r, w: _pass_on(run, r, w), "127.0.0.1", 0)
    )
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(_stop(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _stop(server):
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _pass_on(run, reader, writer):
    with short_path(run) as path:
        there, back = await asyncio.open_unix_connection(path)
    await asyncio.gather(_copy(reader, back), _copy(there, writer))


async def _copy(reader, writer):
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
