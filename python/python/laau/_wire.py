"""Requests to `laau serve` on the wire: one attempt, and when another is worth it. Nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

from ._errors import Error

LONGEST_PAUSE = 5.0
"""Seconds between two attempts, at most."""
MOST_MOVES = 4
"""Nodes that may send a request on, one after the other."""
LONGEST_ANSWER = 64 << 20
"""Bytes of the longest answer."""
LONGEST_IDLE = 20.0
"""Seconds that a connection is kept without use; the service closes one after 30."""
PASSING = (408, 429, 503)
"""Statuses of refusals that pass by themselves."""
OF_PROXIES = (502, 503, 504)
"""Statuses by which a proxy says, in words of its own, that the service behind it is away."""


class ClientError(Error):
    """Why a request failed; also a URL, name or number that cannot be used."""


class Refused(ClientError):
    """The service refused the request: a problem document after RFC 9457.

    >>> from laau.client import Refused
    >>> problem = {"type": "urn:laau:problem:exhausted", "title": "Exhausted", "status": 409,
    ...            "detail": "the budget of the period is used up", "kind": "exhausted"}
    >>> error = Refused(problem)
    >>> error.kind, error.status
    ('exhausted', 409)
    >>> print(error)
    Exhausted (409): the budget of the period is used up
    """

    problem: Mapping[str, Any]
    """The whole document."""
    type: str
    """A name of the kind of problem: `urn:laau:problem:` and `kind`."""
    title: str
    """The kind in words."""
    status: int
    """The HTTP status."""
    detail: str
    """What is wrong with this request, in a sentence."""
    kind: str
    """A stable name of the kind, for programs: `exhausted`, `unknown-account`, …"""
    attempts: int
    """How often the request was sent."""

    def __init__(self, problem: Mapping[str, Any], attempts: int = 1) -> None:
        self.problem = problem
        self.type, self.title = str(problem["type"]), str(problem["title"])
        self.status, self.detail = int(problem["status"]), str(problem["detail"])
        self.kind = str(problem["kind"])
        self.attempts = attempts
        super().__init__(f"{self.title} ({self.status}): {self.detail}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problem, self.attempts)


class NoAnswer(ClientError):
    """No answer, also after several attempts. A change may have been carried out: the same key tells."""

    url: str
    """The address."""
    reason: str
    """The last reason."""

    def __init__(self, url: str, reason: str) -> None:
        self.url, self.reason = url, reason
        super().__init__(f"no answer from {url}: {reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.url, self.reason)


class Strange(ClientError):
    """An answer that this client does not understand."""

    url: str
    """The address."""
    reason: str
    """What is strange."""

    def __init__(self, url: str, reason: str) -> None:
        self.url, self.reason = url, reason
        super().__init__(f"expected an answer of laau serve from {url}: {reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.url, self.reason)


@dataclass(frozen=True)
class Request:
    """One request, which may be sent several times."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None = None
    is_repeated: bool = True
    """Whether it may be sent again without knowing what became of it."""


@dataclass(frozen=True)
class Answer:
    """What the service said when it did as it was asked."""

    url: str
    body: bytes
    replayed: bool
    attempts: int


@dataclass(frozen=True)
class Heard:
    """The head of a good answer, on the connection that its body will come from."""

    base: str
    url: str
    connection: http.client.HTTPConnection
    response: http.client.HTTPResponse
    attempts: int


T = TypeVar("T")


class _Elsewhere(Exception):
    """Another node has the account."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


class _Later(Exception):
    """What another attempt may mend."""

    def __init__(self, error: ClientError, after: float = 0.0) -> None:
        super().__init__(error)
        self.error, self.after = error, after


class Wire:
    """Sends requests to a service until there is an answer that stays. It keeps connections, and threads may share it."""

    def __init__(self, base: str, timeout: float, patience: float, pause: float, trusted: str | None) -> None:
        self.base = base.rstrip("/")
        self.timeout, self.patience, self.pause = timeout, patience, pause
        _split(self.base)
        self._tls = None
        if self.base.startswith("https://") or trusted is not None:
            try:
                self._tls = ssl.create_default_context(cafile=trusted)
            except (OSError, ssl.SSLError) as error:
                raise ClientError(f"{trusted}: expected a certificate in PEM format: {error}") from None
        # By process, too: parent and child of a fork on one connection would hear each other's answers.
        self._idle: dict[tuple[int, str], list[tuple[float, http.client.HTTPConnection]]] = {}

    def send(self, request: Request) -> Answer:
        """The answer, with its body read to the end."""
        return self._until_it_stays(request, self._read)

    def stream(self, request: Request) -> Heard:
        """An answer that goes on, with the connection that is its own."""
        return self._until_it_stays(request, lambda heard: heard)

    def close(self) -> None:
        """Closes the connections that nobody uses."""
        for process, base in list(self._idle):
            if process == os.getpid():
                self._forget(base)

    def _read(self, heard: Heard) -> Answer:
        response = heard.response
        # Asked for all of it, the standard library notices a body that ends too early; asked for a part, it does not.
        expected = response.length
        body = response.read(LONGEST_ANSWER + 1) if expected is None else b""
        if max(len(body), expected or 0) > LONGEST_ANSWER:
            raise Strange(heard.url, f"more than {LONGEST_ANSWER} bytes")
        body += response.read()
        if response.will_close:
            heard.connection.close()
        else:
            self._keep(heard.base, heard.connection)
        replayed = response.headers.get("idempotent-replayed") == "true"
        return Answer(heard.url, body, replayed, heard.attempts)

    def _until_it_stays(self, request: Request, take: Callable[[Heard], T]) -> T:
        began = time.monotonic()
        base, moves, pause, attempts = self.base, 0, self.pause, 0
        while True:
            url = base + request.path
            attempts += 1
            try:
                return self._attempt(base, request, take, attempts)
            except _Elsewhere as moved:
                if moves < MOST_MOVES:
                    moves += 1
                    base = self._may_be_told(moved.owner, url)
                    continue
                later = _Later(NoAnswer(url, f"the account moves from node to node, last to {moved.owner}"))
            except _Later as found:
                later = found
            rest = max(pause, later.after)
            if not request.is_repeated or time.monotonic() - began + rest > self.patience:
                raise later.error from later.__cause__
            time.sleep(rest)
            pause = min(2 * pause, LONGEST_PAUSE)
            # A node that is gone may have left the account to the one that was asked first.
            base, moves = self.base, 0

    def _may_be_told(self, owner: str, url: str) -> str:
        """Credentials go on to a node that the service names, but never out of TLS."""
        if self.base.startswith("https://") and not owner.startswith("https://"):
            raise Strange(url, f"it sends on to {owner}, without TLS")
        try:
            _split(owner)
        except ClientError as error:
            raise Strange(url, f"it sends on: {error}") from None
        return owner.rstrip("/")

    def _attempt(self, base: str, request: Request, take: Callable[[Heard], T], attempts: int) -> T:
        url = base + request.path
        connection = self._connection(base, fresh=not request.is_repeated)
        try:
            prefix = urlsplit(base).path
            connection.request(request.method, prefix + request.path, body=request.body, headers=dict(request.headers))
            response = connection.getresponse()
            if 200 <= response.status < 300:
                return take(Heard(base, url, connection, response, attempts))
            self._refused(url, response, attempts)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            # Those that were kept have most likely gone the same way.
            self._forget(base)
            silence = NoAnswer(url, str(error) or type(error).__name__)
            if isinstance(error, ssl.SSLCertVerificationError):
                raise silence from error  # no waiting mends a certificate
            raise _Later(silence) from error
        except BaseException:
            # Also Ctrl-C: nobody may read the rest of this answer as one of theirs.
            connection.close()
            raise

    @staticmethod
    def _refused(url: str, response: http.client.HTTPResponse, attempts: int) -> NoReturn:
        body = response.read(LONGEST_ANSWER)
        after = response.headers.get("retry-after", "")
        seconds = float(after) if after.isascii() and after.isdigit() else 0.0
        try:
            problem = json.loads(body)
            error = Refused(problem, attempts)
        except (ValueError, KeyError, TypeError):
            strange = Strange(url, f"status {response.status} without a problem document")
            if response.status in OF_PROXIES:
                raise _Later(strange, seconds) from None
            raise strange from None
        owner = problem.get("address")
        if response.status == 307 and isinstance(owner, str):
            raise _Elsewhere(owner)
        if response.status in PASSING:
            raise _Later(error, seconds)
        raise error

    def _connection(self, base: str, fresh: bool) -> http.client.HTTPConnection:
        while not fresh and (kept := self._kept(base)):
            since, connection = kept
            if time.monotonic() - since < LONGEST_IDLE:
                return connection
            connection.close()
        is_tls, host, port = _split(base)
        if is_tls:
            return http.client.HTTPSConnection(host, port, timeout=self.timeout, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=self.timeout)

    def _forget(self, base: str) -> None:
        while kept := self._kept(base):
            kept[1].close()

    def _kept(self, base: str) -> tuple[float, http.client.HTTPConnection] | None:
        """A connection that nobody uses; from now on it is the caller's alone, whatever other threads do."""
        try:
            return self._idle[os.getpid(), base].pop()
        except LookupError:
            return None

    def _keep(self, base: str, connection: http.client.HTTPConnection) -> None:
        self._idle.setdefault((os.getpid(), base), []).append((time.monotonic(), connection))


def _split(base: str) -> tuple[bool, str, int | None]:
    """Whether a base URL is one of TLS, its host and its port."""
    try:
        parts = urlsplit(base)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    is_plain = not (parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain or not base.isascii():
        raise ClientError(f"expected a URL such as http://127.0.0.1:7171, found `{base}`")
    return parts.scheme == "https", parts.hostname, port
