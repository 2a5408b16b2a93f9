"""forwarder.py LISTEN TO: passes TCP connections on, each HOST:PORT. Who ends it, or stops it, cuts off whoever connects by it."""

import asyncio
import sys


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()


async def serve(reader, writer):
    host, _, port = sys.argv[2].rpartition(":")
    try:
        there = await asyncio.open_connection(host, int(port))
    except OSError:
        writer.close()
        return
    await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))


async def main():
    host, _, port = sys.argv[1].rpartition(":")
    server = await asyncio.start_server(serve, host, int(port))
    print("forwards", flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main())
