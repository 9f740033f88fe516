"""Steady requests: load.py HOST PORT SECONDS CONNECTIONS PAUSE_MS [close] [PATH]. Each connection asks, waits for the answer, pauses, asks again.
Prints for each a JSON list [end, milliseconds, status, body's first line], at once; end is CLOCK_MONOTONIC, which all machines of a lab share.
It goes on until SIGTERM, at most for SECONDS; with `least=N` for longer, until N were answered.
Status 0: no answer, the body then says why. A connection that was lost is opened again; with `close` each request has its own."""
import asyncio
import json
import signal
import sys
import time

host, port, seconds, connections, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]) / 1000
close = "close" in sys.argv[6:]
path = next((a for a in sys.argv[6:] if a.startswith("/")), "/")
least = next((int(a[6:]) for a in sys.argv[6:] if a.startswith("least=")), 0)
answers = 0
over = asyncio.Event()


async def answer(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
    body = await reader.readexactly(int(fields.get("content-length", 0)))
    return int(lines[0].split()[1]), body.decode().split("\n")[0], fields.get("connection") == "close"


async def client(end):
    global answers
    writer = None
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n" + ("Connection: close\r\n" if close else "") + "\r\n"
    while not over.is_set() and (time.monotonic() < end or answers < least):
        start, last = time.monotonic(), False
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection(host, port)
            writer.write(request.encode())
            status, text, last = await answer(reader)
        except (OSError, EOFError, ValueError) as e:
            status, text, last = 0, repr(e), True
        now = time.monotonic()
        answers += status == 200
        print(json.dumps((now, (now - start) * 1000, status, text)), flush=True)
        if (last or close) and writer is not None:
            writer.close()
            writer = None
        await asyncio.sleep(pause)


async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    end = time.monotonic() + seconds
    await asyncio.gather(*(client(end) for _ in range(connections)))

asyncio.run(main())
