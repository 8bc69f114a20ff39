"""A thousand streams at once: this transport beside the vendors' official SDKs, on the same local server in the same run.

    python benchmarks/streams.py [--streams 1000] [--deltas 50] [--gap 0.1] [--runs 3]

The server sends every stream `deltas` events, one each `gap` seconds, so that an ideal client takes deltas x gap seconds. Each client runs
in a process of its own; a SDK that is not installed is left out. Printed are the wall time, the CPU time of the client and the median time
to the first token, which grows when the client's event loop is full, and the ratios of the CPU times.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
PROMPT = "How many?"


def chat_events(deltas: int) -> list[bytes]:
    """The events of a Chat Completions stream of so many words, the last with all that ends it."""
    shell = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    words = [{**shell, "choices": [{"index": 0, "delta": {"content": f"word{n} "}, "finish_reason": None}]} for n in range(deltas)]
    end = {**shell, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    usage = {**shell, "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": deltas, "total_tokens": 5 + deltas}}
    lines = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in (*words, end, usage)]
    return [*lines[:deltas], b"".join(lines[deltas:]) + b"data: [DONE]\n\n"]


def message_events(deltas: int) -> list[bytes]:
    """The events of a Messages stream of so many words, the last with all that ends it."""
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None, "stop_sequence": None}
    start = {"type": "message_start", "message": {**message, "usage": {"input_tokens": 5, "output_tokens": 1}}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    words = [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"word{n} "}} for n in range(deltas)]
    stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": deltas}}
    last = [{"type": "content_block_stop", "index": 0}, stop, {"type": "message_stop"}]
    lines = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in (start, block, *words, *last)]
    return [b"".join(lines[:3]), *lines[3 : 2 + deltas], b"".join(lines[2 + deltas :])]


class Line(asyncio.Protocol):
    """One connection of the server: answers every request with the events of its path, one each `gap` seconds."""

    def __init__(self, streams: dict[bytes, list[bytes]], gap: float) -> None:
        self.streams = streams
        self.gap = gap
        self.buffer = b""
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end].lower()
        at = head.find(b"content-length:")
        size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self.buffer) < end + 4 + size:
            return
        path = self.buffer.split(b" ", 2)[1]
        self.buffer = self.buffer[end + 4 + size :]
        self.transport.write(HEAD)
        self._next(iter(next(found for name, found in self.streams.items() if path.split(b"?")[0].endswith(name))))

    def _next(self, left: Iterator[bytes]) -> None:
        chunk = next(left, None)
        if self.transport.is_closing():
            return
        self.transport.write(b"0\r\n\r\n" if chunk is None else b"%x\r\n%s\r\n" % (len(chunk), chunk))
        if chunk is not None:
            asyncio.get_running_loop().call_later(self.gap, self._next, left)


async def serve(deltas: int, gap: float) -> None:
    """Serve both formats until standard input closes; prints the address."""
    loop = asyncio.get_running_loop()
    streams = {b"/chat/completions": chat_events(deltas), b"/messages": message_events(deltas)}
    server = await loop.create_server(lambda: Line(streams, gap), "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


Ask = Callable[[int], Awaitable[tuple[float, str]]]  # seconds to the first token, and the text


async def ours(url: str, streams: int, wire: str, use: Callable[[Ask], Awaitable[None]]) -> None:
    """This transport, in either format."""
    from ttc_eval.models.http import HttpModel
    from ttc_eval.records import Message, Request, Sampling
    from ttc_eval.thinking import Thinking

    dialect = {"openai_chat": "generic", "anthropic": "2026-10-21"}[wire]
    model = HttpModel("m", f"{url}/v1", "m", wire=wire, dialect=dialect, max_concurrency=streams)
    async with model.connect() as connection:

        async def ask(number: int) -> tuple[float, str]:
            request = Request("m", "e", (Message("user", PROMPT),), Thinking(), Sampling(), 256, 256, draw=number)
            response = await connection.respond(request)
            assert response.usage.known
            return response.timings.first_token_s or 0.0, response.text

        await use(ask)


async def openai_sdk(url: str, use: Callable[[Ask], Awaitable[None]]) -> None:
    """OpenAI's SDK, as its documentation streams."""
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:

        async def ask(_: int) -> tuple[float, str]:
            started, first, text = time.perf_counter(), None, []
            turn: Any = {"role": "user", "content": PROMPT}
            stream = await client.chat.completions.create(model="m", messages=[turn], stream=True, stream_options={"include_usage": True})
            async for chunk in stream:
                if chunk.choices and chunk.choices[0].delta.content:
                    first = time.perf_counter() - started if first is None else first
                    text.append(chunk.choices[0].delta.content)
            return first or 0.0, "".join(text)

        await use(ask)


async def anthropic_sdk(url: str, use: Callable[[Ask], Awaitable[None]]) -> None:
    """Anthropic's SDK, with raw events, its lightest form."""
    from anthropic import AsyncAnthropic

    async with AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client:

        async def ask(_: int) -> tuple[float, str]:
            started, first, text = time.perf_counter(), None, []
            turn: Any = {"role": "user", "content": PROMPT}
            stream = await client.messages.create(model="m", max_tokens=256, messages=[turn], stream=True)
            async for event in stream:
                if event.type == "content_block_delta" and event.delta.type == "text_delta":
                    first = time.perf_counter() - started if first is None else first
                    text.append(event.delta.text)
            return first or 0.0, "".join(text)

        await use(ask)


CLIENTS = {
    "ttc_eval, chat": lambda url, streams, use: ours(url, streams, "openai_chat", use),
    "openai SDK": lambda url, _, use: openai_sdk(url, use),
    "ttc_eval, messages": lambda url, streams, use: ours(url, streams, "anthropic", use),
    "anthropic SDK": lambda url, _, use: anthropic_sdk(url, use),
}
PAIRS = (("ttc_eval, chat", "openai SDK", "openai"), ("ttc_eval, messages", "anthropic SDK", "anthropic"))


async def measure(name: str, url: str, streams: int, deltas: int) -> dict[str, float]:
    """All streams at once through one client, after one to warm up."""
    result: dict[str, float] = {}

    async def use(ask: Ask) -> None:
        await ask(-1)
        started, cpu = time.perf_counter(), time.process_time()
        found = await asyncio.gather(*(ask(number) for number in range(streams)))
        result.update(wall=time.perf_counter() - started, cpu=time.process_time() - cpu)
        expected = "".join(f"word{n} " for n in range(deltas))
        assert all(text == expected for _, text in found), "a stream lost text"
        result["first"] = statistics.median(first for first, _ in found)

    await CLIENTS[name](url, streams, use)
    return result


@contextmanager
def server(deltas: int, gap: float) -> Iterator[str]:
    """The server in a process of its own; gives its address."""
    command = [sys.executable, __file__, "--serve", "--deltas", str(deltas), "--gap", str(gap)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def run(name: str, url: str, options: argparse.Namespace) -> dict[str, float]:
    """One client in a process of its own."""
    command = [sys.executable, __file__, "--client", name, "--url", url, "--streams", str(options.streams), "--deltas", str(options.deltas)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'failed'}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--deltas", type=int, default=50)
    parser.add_argument("--gap", type=float, default=0.1, help="seconds between two events of a stream")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--client", choices=CLIENTS, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.deltas, options.gap))
        return
    if options.client:
        print(json.dumps(asyncio.run(measure(options.client, options.url, options.streams, options.deltas))))
        return
    ideal = options.deltas * options.gap
    print(f"{options.streams} streams of {options.deltas} events at once; an ideal client takes {ideal:.1f} s")
    with server(options.deltas, options.gap) as url:
        for mine, theirs, package in PAIRS:
            if importlib.util.find_spec(package) is None:
                print(f"{theirs}: not installed; left out (pip install {package})")
                continue
            ratios: dict[str, list[float]] = {"cpu": [], "wall": []}
            for _ in range(options.runs):
                results = {name: run(name, url, options) for name in (mine, theirs)}
                for name, found in results.items():
                    print(f"{name:20} wall {found['wall']:6.2f} s   CPU {found['cpu']:6.2f} s   first token {found['first']:6.3f} s")
                for what, values in ratios.items():
                    values.append(results[theirs][what] / results[mine][what])
            cpu, wall = (statistics.median(ratios[what]) for what in ("cpu", "wall"))
            print(f"{theirs} / {mine}: median ratio of CPU {cpu:.1f}, of wall {wall:.2f}")


if __name__ == "__main__":
    main()
