"""A real browser, driven over its own protocol: what a page logs, asks the network for, and does when keys are pressed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

BROWSER = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)


@dataclass
class Page:
    """An open page. `said`: what its console and its errors said; `asked`: every address that it asked for."""

    socket: aiohttp.ClientWebSocketResponse
    session_id: str = ""
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    count: int = 0

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command, and its result; events on the way are kept."""
        self.count += 1
        mine, message = self.count, {"id": self.count, "method": method, "params": parameters}
        await self.socket.send_json(message | ({"sessionId": self.session_id} if self.session_id else {}))
        while True:
            found = await asyncio.wait_for(self.socket.receive_json(), 60)
            if found.get("id") == mine:
                assert "error" not in found, found
                return dict(found["result"])
            self._keep(found)

    def _keep(self, event: dict[str, Any]) -> None:
        name, values = event.get("method"), event.get("params", {})
        if name in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.said.append(str(values)[:500])
        if name == "Network.requestWillBeSent":
            self.asked.append(values["request"]["url"])

    async def value(self, expression: str) -> Any:
        """What an expression gives in the page, by value."""
        found = await self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def loaded(self) -> None:
        """Wait until the file is there, and all that it holds."""
        for _ in range(1200):
            if await self.value("document.readyState === 'complete' && location.protocol === 'file:'"):
                return
            await asyncio.sleep(0.05)
        raise TimeoutError("the page did not load")

    async def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key, as a reader would."""
        for kind in ("keyDown", "keyUp"):
            extra = {"text": text} if text and kind == "keyDown" else {}
            await self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **extra)


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Page]:
    """The file in a browser of its own, which is ended afterwards."""
    assert BROWSER is not None
    with tempfile.TemporaryDirectory() as profile:
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        browser = await asyncio.create_subprocess_exec(BROWSER, *options, env=environment, **silent)  # type: ignore[arg-type]
        try:
            port = await _port(Path(profile) / "DevToolsActivePort")
            async with (
                aiohttp.ClientSession() as session,
                session.ws_connect(f"ws://127.0.0.1:{port[0]}{port[1]}", max_msg_size=0) as socket,
            ):
                page = Page(socket)
                target = await page.send("Target.createTarget", url="about:blank")
                attached = await page.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
                page.session_id = attached["sessionId"]
                for domain in ("Runtime", "Log", "Network", "Page"):
                    await page.send(f"{domain}.enable")
                await page.send("Page.navigate", url=path.as_uri())
                await page.loaded()
                yield page
        finally:
            browser.terminate()
            await asyncio.wait_for(browser.wait(), 30)


async def _port(path: Path) -> tuple[str, str]:
    for _ in range(1200):
        lines = _lines(path)
        if len(lines) == 2:
            return lines[0], lines[1]
        await asyncio.sleep(0.05)
    raise TimeoutError("the browser did not start")


def _lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []
