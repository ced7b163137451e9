"""A real `laau serve`, which can be killed and started again, and one that says what a test wants."""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from laau.client import Client

SHOP = {"problem": "weighted-fairness", "policy": "equal", "budgets": 100, "horizon": 4}

ROOT = Path(__file__).parent.parent.parent


@functools.cache
def binary() -> Path:
    """The command with the service: the one that `LAAU_COMMAND` names, or what Cargo left in the workspace's target folder."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    named = os.environ.get("LAAU_COMMAND")
    for path in [Path(named)] if named else [target / "debug/laau", target / "release/laau"]:
        if path.is_file():
            break
    else:
        pytest.skip("there is no binary `laau`: build it with `cargo build`, or name it in LAAU_COMMAND")
    asked = subprocess.run([path, "serve", "--help"], capture_output=True, timeout=60)
    if asked.returncode != 0:
        pytest.skip(f"{path} was built without the feature `serve`")
    return path


class Service:
    """`laau serve` on a store of its own, at the same address after every start."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.command, self.store, self.flags = binary(), folder / "budgets.laau", flags
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.key = self.make_key("admin")
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def make_key(self, scope: str) -> str:
        """A key in the store, which nobody serves yet."""
        command = [self.command, "serve", "key", "--store", self.store, "--scope", scope]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    def start(self) -> None:
        """Starts it; clients wait until it answers."""
        command = [self.command, "serve", "--store", self.store, "--listen", f"127.0.0.1:{self.port}", *self.flags]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def stop(self, by: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(by)
        self.process.wait(60)

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def client(self, key: str | None = None, url: str | None = None) -> Client:
        return Client(url or self.url, key or self.key, pause=0.01)


Say = Callable[["Handler", bytes], None]


class Fake(ThreadingHTTPServer):
    """Answers requests as it is told, one after the other, and remembers them."""

    daemon_threads = True

    def __init__(self, *says: Say) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.says = list(says)
        self.keys: list[str | None] = []
        self.connections = 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *words: object) -> None:
        """Says nothing: a service that is away is what a test is about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Fake

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.keys.append(self.headers["idempotency-key"])
        self.server.says.pop(0)(self, body)

    do_GET = do_POST
    do_DELETE = do_POST

    def log_message(self, *words: object) -> None:
        """Says nothing."""


def say(status: int, body: str, kind: str = "application/json", **headers: object) -> Say:
    """An answer."""

    def answer(handler: Handler, _: bytes) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body.encode())))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), str(value))
        handler.end_headers()
        handler.wfile.write(body.encode())

    return answer


def problem(status: int, kind: str, **rest: str) -> str:
    """A problem document."""
    return json.dumps({"type": f"urn:laau:problem:{kind}", "title": kind, "status": status, "detail": "", "kind": kind, **rest})


def passed_on(url: str, handler: Handler, body: bytes) -> tuple[HTTPResponse, bytes]:
    """What the service says to the same request."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=60)
    headers = {name: value for name, value in handler.headers.items() if name.lower() not in ("host", "content-length")}
    connection.request(handler.command, handler.path, body or None, headers)
    response = connection.getresponse()
    return response, response.read()


def lost(url: str, then: Callable[[], None] = lambda: None) -> Say:
    """The service carries it out; the client never hears of it."""

    def lose(handler: Handler, body: bytes) -> None:
        response, _ = passed_on(url, handler, body)
        assert response.status == 200
        then()
        handler.close_connection = True

    return lose


def half(url: str) -> Say:
    """The answer breaks off in its middle."""

    def break_off(handler: Handler, body: bytes) -> None:
        response, answer = passed_on(url, handler, body)
        handler.send_response(response.status)
        handler.send_header("Content-Length", str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer[: len(answer) // 2])
        handler.close_connection = True

    return break_off


def whole(url: str) -> Say:
    """The answer as it is."""

    def hand_on(handler: Handler, body: bytes) -> None:
        response, answer = passed_on(url, handler, body)
        headers = {"Idempotent_Replayed": response.headers.get("idempotent-replayed", "false")}
        say(response.status, answer.decode(), **headers)(handler, body)

    return hand_on
