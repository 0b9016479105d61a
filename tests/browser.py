"""A headless Chromium over its own debugging pipe: no driver, no package, nothing downloaded."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
    "--disable-component-update", "--no-first-run", "--disable-extensions", "--disable-default-apps",
    "--hide-scrollbars", "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip
KEYS = {" ": 32, "Enter": 13, "Tab": 9, "Escape": 27, "Home": 36, "End": 35,
        "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}  # fmt: skip


def find() -> str | None:
    named = os.environ.get("UNMASK_CHROMIUM")
    return named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One tab. Errors and violated policies of the page are kept in `complaints`."""

    def __init__(self, profile: Path) -> None:
        program = find()
        assert program, "no browser"
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()

        def wire() -> None:  # the browser reads from descriptor 3 and writes to 4
            spare = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(spare[0], 3)
            os.dup2(spare[1], 4)

        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"], close_fds=False, preexec_fn=wire,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_out)
        os.close(theirs_in)
        self.source, self.sink = os.fdopen(ours_in, "rb", buffering=0), os.fdopen(ours_out, "wb", buffering=0)
        self.rest, self.count, self.session = b"", 0, None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.count += 1
        message: dict[str, Any] = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.sink.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.note(answer)

    def read(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            chunk = self.source.read(1 << 20)
            assert chunk, "the browser is gone"
            self.rest += chunk
        line, _, self.rest = self.rest.partition(b"\0")
        return json.loads(line)

    def note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(str(details.get("exception", {}).get("description") or details.get("text")))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")
        self.js("globalThis.$ = (s) => document.querySelector(s), 0")
        self.js("globalThis.$$ = (s) => [...document.querySelectorAll(s)], 0")

    def js(self, code: str) -> Any:
        """The value of an expression; promises are awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, code: str, seconds: float = 20.0) -> None:
        deadline = time.monotonic() + seconds
        while not self.js(f"Boolean({code})"):
            assert time.monotonic() < deadline, f"waited in vain for {code}"
            time.sleep(0.02)

    def press(self, key: str, times: int = 1) -> None:
        for _ in range(times):
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            shared = {"key": key, "windowsVirtualKeyCode": KEYS.get(key, ord(key[0].upper()))}
            self.call("Input.dispatchKeyEvent", type="keyDown", **shared, **({"text": text} if text else {}))
            self.call("Input.dispatchKeyEvent", type="keyUp", **shared)

    def point(self, selector: str, *, click: bool = False) -> None:
        """Move the mouse to the middle of an element, and perhaps press it."""
        box = self.js(
            f"(() => {{ const n = document.querySelector({json.dumps(selector)});"
            "n.scrollIntoView({block: 'center'});"
            "const b = n.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        place = {"x": box[0], "y": box[1]}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **place)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def screen(self, width: int, height: int, *, dark: bool = False, touch: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        calm = {"name": "prefers-reduced-motion", "value": "reduce"}  # nothing moves away under the pointer
        self.call("Emulation.setEmulatedMedia", features=[scheme, calm])

    def screenshot(self, path: Path | str, *, full: bool = False) -> None:
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def close(self) -> None:
        try:
            self.session = None
            self.call("Browser.close")
        except (AssertionError, OSError):
            self.process.kill()
        self.process.wait(10)
        self.source.close()
        self.sink.close()
