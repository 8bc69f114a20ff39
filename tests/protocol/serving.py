"""A real `ttc-eval serve` process on loopback, and plain requests to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]


@dataclass
class Process:
    """The server. `stop` ends it by a signal and returns its exit code; `log` is what it wrote, once it has ended."""

    popen: subprocess.Popen[str]
    url: str = ""
    log: list[str] = field(default_factory=list)

    def stop(self, number: int = signal.SIGTERM, within: float = 60) -> int:
        if self.popen.poll() is None:
            self.popen.send_signal(number)
        return self.popen.wait(within)


@contextmanager
def serving(*arguments: str, env: dict[str, str] | None = None) -> Iterator[Process]:
    """Start a server on a free port and wait until it tells its address; it ends with the context, by its own pid."""
    command = [sys.executable, "-m", "ttc_eval.cli", "serve", *arguments, "--port", "0"]
    popen = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, **(env or {})}
    )
    process = Process(popen)
    assert popen.stdout is not None
    assert popen.stderr is not None
    stderr = popen.stderr
    reader = threading.Thread(target=lambda: process.log.extend(stderr))
    reader.start()
    try:
        first = popen.stdout.readline()
        if " at http" not in first:
            popen.wait(30)
            reader.join()
            raise AssertionError(f"the server did not start: {first}{''.join(process.log)}")
        process.log.append(first)
        process.url = first.split(" at ")[1].split()[0]
        yield process
        process.stop()
        process.log.extend(popen.stdout)
    finally:
        if popen.poll() is None:
            popen.kill()
            popen.wait()
        reader.join()
        popen.stdout.close()
        stderr.close()


@dataclass(frozen=True)
class Reply:
    """A whole reply."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The JSON objects of the events."""
        data = [line[6:] for line in self.body.decode().split("\n") if line.startswith("data: ")]
        return [json.loads(one) for one in data if one != "[DONE]"]


def send(url: str, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Reply:
    """One request on a connection of its own."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
        reply = connection.getresponse()
        return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
    finally:
        connection.close()


def post(url: str, body: object, path: str = "/v1/messages", headers: dict[str, str] | None = None) -> Reply:
    """Post JSON."""
    return send(url, "POST", path, json.dumps(body).encode(), headers)
