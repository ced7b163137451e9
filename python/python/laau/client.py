"""A client of `laau serve`: one budget for many programs. Nothing but the standard library is imported.

Every change is sent under an idempotency key, and sent again under the same key when the connection breaks or the service is
busy: it is carried out once.

>>> from laau.client import Client
>>> client = Client("http://127.0.0.1:7171", key)
>>> account = client.create("shop", problem="weighted-fairness", policy="equal", budgets=[100], horizon=4)
>>> decision = client.decide("shop", 0.5)
>>> decision.action, decision.held, decision.remaining
((25.0,), (25.0,), (75.0,))
>>> client.settle("shop", decision, usage=10).remaining
(90.0,)

The key names the request: a program that crashed and asks again under its own key gets the first answer.

>>> first = client.decide("shop", 0.7, key="order-2")
>>> again = client.decide("shop", 0.7, key="order-2")
>>> again == first, again.replayed
(True, True)

What the service refuses is an exception with the problem document (RFC 9457); nothing has changed then.

>>> from laau.client import Refused
>>> try:
...     client.settle("shop", first, usage=26)
... except Refused as error:
...     print(error.status, error.kind, "|", error.detail)
422 refused | budget 0: 26 settled, 25 held
"""

from __future__ import annotations

import http.client
import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike, fspath
from types import TracebackType
from typing import Any, Literal, SupportsFloat, TypeVar

from ._answers import Account, Decision, Entry, Key, Notice, Period, Settled
from ._wire import LONGEST_ANSWER, Answer, ClientError, Heard, NoAnswer, Refused, Request, Strange, Wire

__all__ = [
    "Account",
    "Client",
    "ClientError",
    "Decision",
    "Dropped",
    "Entry",
    "Events",
    "Key",
    "NoAnswer",
    "Notice",
    "Period",
    "Refused",
    "Settled",
    "Strange",
]

T = TypeVar("T")
Values = SupportsFloat | Iterable[SupportsFloat]


class Dropped(ClientError):
    """A stream of events ended because its reader was too slow; `Client.entries` has what it missed."""


class Client:
    """A blocking client of one service. It keeps its connections, and threads may share it.

    `key` is an API key; `trusted` a file with certificates in PEM format to trust instead of those of the public authorities.
    Times are in seconds:

    | argument | default | purpose |
    |---|---|---|
    | `timeout` | 30 | of an attempt without a byte from the service |
    | `patience` | 60 | of all attempts of a request together; none is begun after it |
    | `pause` | 0.05 | before the second attempt; it doubles from there, to 5, and is at least what the service asks for |

    >>> from laau.client import Client
    >>> Client("127.0.0.1:7171")
    Traceback (most recent call last):
    ...
    laau._wire.ClientError: expected a URL such as http://127.0.0.1:7171, found `127.0.0.1:7171`
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 30.0,
        patience: float = 60.0,
        pause: float = 0.05,
        trusted: str | PathLike[str] | None = None,
    ) -> None:
        self._wire = Wire(url, timeout, patience, pause, None if trusted is None else fspath(trusted))
        self._headers = {"User-Agent": _user_agent()}
        if key is not None:
            # A file of a key ends with a line break.
            self._headers["Authorization"] = f"Bearer {_word('an API key', key.strip())}"

    @property
    def url(self) -> str:
        """The base URL of the service."""
        return self._wire.base

    def decide(self, account: str, context: Values, *, key: str | None = None) -> Decision:
        """Decides a step and holds its usage; the answer is durable.

        The idempotency key is a new one if none is given. Give one of your own, such as the name of the job, and a program
        that crashed and asks again gets the first answer.
        """
        path = _path(account, "/decisions")
        answer = self._post(path, key or new_key(), {"context": _numbers("context", context)})
        return _read(answer, lambda found: Decision.read(found, answer.body, answer.replayed))

    def settle(self, account: str, decision: Decision | str, usage: Values, *, key: str | None = None) -> Settled:
        """Settles a decision by the usage that really happened, at most what was held: the difference returns, once."""
        name = _decision(decision)
        # One settlement per decision: its name is a key as good as any.
        answer = self._post(
            _path(account, f"/decisions/{name}/settlement"), key or f"settle-{name}", {"usage": _numbers("usage", usage)}
        )
        return _read(answer, lambda found: Settled.read(found, answer.body, answer.replayed))

    def release(self, account: str, decision: Decision | str, *, key: str | None = None) -> Settled:
        """Returns the whole hold of a decision that was never carried out. Needs a key of scope `admin`."""
        name = _decision(decision)
        answer = self._post(_path(account, f"/decisions/{name}/release"), key or f"release-{name}")
        return _read(answer, lambda found: Settled.read(found, answer.body, answer.replayed))

    def skip(self, account: str, steps: int, *, key: str | None = None) -> Period:
        """Lets steps pass unused."""
        return _read(self._post(_path(account, "/skip"), key or new_key(), {"steps": steps}), Period.read)

    def open(self, account: str, *, key: str | None = None) -> Period:
        """Begins the next period. Needs a key of scope `admin`."""
        return _read(self._post(_path(account, "/periods"), key or new_key()), Period.read)

    def create(
        self,
        name: str,
        *,
        policy: str | Mapping[str, Any],
        budgets: Values,
        problem: str | Mapping[str, Any] | None = None,
        horizon: int | None = None,
        guard: Mapping[str, Any] | None = None,
        period: Mapping[str, Any] | None = None,
        rollover: bool = False,
    ) -> Account:
        """Makes an account and opens its first period; the same settings once more are no error. Needs a key of scope `admin`.

        `policy` is a name or, in the words of the API, `{"name": …, "parameters": {…}}` or `{"file": …}`, a file in the
        service's folder of policies, which knows its problem and horizon. `guard` is `{"policy": {…}, "level": …}`, `period`
        for periods by the clock `{"seconds": …}`.
        """
        spec = {
            "name": name,
            "problem": {"name": problem} if isinstance(problem, str) else problem,
            "policy": {"name": policy} if isinstance(policy, str) else policy,
            "guard": guard,
            "budgets": _numbers("budgets", budgets),
            "horizon": horizon,
            "period": period,
            "rollover": rollover,
        }
        body = _json({word: value for word, value in spec.items() if value is not None})
        return _read(self._send("POST", "/v1/accounts", body=body), Account.read)

    def account(self, account: str) -> Account:
        """One account."""
        return _read(self._send("GET", _path(account)), Account.read)

    def accounts(self) -> list[Account]:
        """The accounts that the key may see, in the order of their names."""
        answer = self._send("GET", "/v1/accounts")
        return _read(answer, lambda found: [Account.read(account) for account in found["accounts"]])

    def close_account(self, account: str) -> Account:
        """Closes an account for good: it decides nothing more, and its name stays taken. Needs a key of scope `admin`."""
        return _read(self._send("DELETE", _path(account)), Account.read)

    def entries(self, account: str, period: int, start: int = 0) -> Iterator[Entry]:
        """The log of a period, this one or the one before, from an entry on; read in parts as it is gone through."""
        at: int | None = start
        while at is not None:
            answer = self._send("GET", _path(account, f"/periods/{period:d}/entries?from={at:d}"))
            entries, at = _read(answer, _entries)
            yield from entries

    def events(self, account: str) -> Events:
        """What becomes durable in an account from now on, as it happens.

        The stream is open when this returns: nothing that happens later is missed.

        >>> with client.events("shop") as events:
        ...     decision = client.decide("shop", 0.2)
        ...     notice = next(events)
        >>> notice.entry.event["event"], notice.period.step
        ('decided', 3)
        """
        request = Request("GET", _path(account, "/events"), {**self._headers, "Accept": "text/event-stream"})
        return Events(self._wire.stream(request))

    def keys(self) -> list[Key]:
        """The API keys, without their secrets. Needs a key of scope `admin` for all accounts."""
        answer = self._send("GET", "/v1/keys")
        return _read(answer, lambda found: [Key.read(key) for key in found["keys"]])

    def make_key(self, scope: Literal["read", "decide", "admin"], account: str | None = None) -> Key:
        """Makes an API key, whose `token` is shown this once. Needs a key of scope `admin` for all accounts.

        It is sent once: where the answer is lost, there may be a key that nobody has; `keys` shows it.
        """
        body = {"scope": scope} if account is None else {"scope": scope, "account": account}
        return _read(self._send("POST", "/v1/keys", body=_json(body), is_repeated=False), Key.read)

    def revoke_key(self, key: Key | str) -> None:
        """Revokes an API key, by its public name. Needs a key of scope `admin` for all accounts."""
        name = key.id if isinstance(key, Key) else key
        if not re.fullmatch("[0-9a-f]+", name):
            raise ClientError("expected the public name of an API key: hexadecimal digits", "`Client.keys` lists them")
        try:
            self._send("DELETE", f"/v1/keys/{name}")
        except Refused as error:
            # The answer to the first attempt was lost, but not what it did.
            if not (error.kind == "unknown-key" and error.attempts > 1):
                raise

    def close(self) -> None:
        """Closes the connections that are kept; the next request opens one."""
        self._wire.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def _post(self, path: str, key: str, body: Mapping[str, Any] | None = None) -> Answer:
        words = {"Idempotency-Key": _word("an idempotency key", key)}
        return self._send("POST", path, words, None if body is None else _json(body))

    def _send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        is_repeated: bool = True,
    ) -> Answer:
        headers = {**self._headers, **(headers or {})}
        if body is not None:
            headers["Content-Type"] = "application/json"
        return self._wire.send(Request(method, path, headers, body, is_repeated))


class Events(Iterator[Notice]):
    """A stream of events, as an iterator: it ends when the service does, or when the API key is revoked.

    `NoAnswer` says that the connection broke, `Dropped` that the reader was too slow. `Client.entries` has what was missed.
    """

    def __init__(self, heard: Heard) -> None:
        self._url, self._connection, self._response = heard.url, heard.connection, heard.response
        self._lines: list[bytes] = []
        self._rest = b""

    def __next__(self) -> Notice:
        name, data = "message", []
        while (line := self._line()) is not None:
            field, _, value = line.removesuffix(b"\r").partition(b":")
            value = value.removeprefix(b" ")
            if field == b"event":
                name = value.decode("utf-8", "replace")
            elif field == b"data":
                data.append(value)
            elif line in (b"", b"\r"):
                if name == "dropped":
                    self.close()
                    missed = b"".join(data).decode("utf-8", "replace")
                    raise Dropped(f"the stream ended: its reader is behind by {missed} events", "`Client.entries` has them")
                if name == "entry" and data:
                    return _parsed(self._url, b"\n".join(data), Notice.read)
                name, data = "message", []
        raise StopIteration

    def _line(self) -> bytes | None:
        """The next line, without its end; none where the stream has ended in order."""
        while not self._lines:
            if self._response.isclosed():
                return None
            try:
                # Not `readline`: of a connection that breaks between two events it makes an orderly end.
                found = self._response.read1(1 << 16)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                raise NoAnswer(self._url, str(error) or type(error).__name__) from error
            if not found:
                self.close()
                return None
            if len(self._rest) > LONGEST_ANSWER:
                self.close()
                raise Strange(self._url, f"a line of more than {LONGEST_ANSWER} bytes")
            *lines, self._rest = (self._rest + found).split(b"\n")
            self._lines = lines[::-1]
        return self._lines.pop()

    def close(self) -> None:
        """Ends the stream."""
        self._lines = []
        self._response.close()
        self._connection.close()

    def __enter__(self) -> Events:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def new_key() -> str:
    """An idempotency key that nobody has used."""
    return secrets.token_hex(16)


def _user_agent() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"laau-python/{version('laau')}"
    except PackageNotFoundError:
        return "laau-python"


def _word(what: str, text: str) -> str:
    """A header's value of visible characters alone: a line break in one would be a header of its own."""
    if not re.fullmatch("[!-~]{1,255}", text):
        raise ClientError(f"expected {what} of 1 to 255 visible ASCII characters")
    return text


def _path(account: str, rest: str = "") -> str:
    """The path of an account. A name that is none would be a path of its own."""
    if not re.fullmatch("[a-z0-9_-][a-z0-9._-]*", account):
        raise ClientError(f"`{account}` is no name of an account")
    return f"/v1/accounts/{account}{rest}"


def _decision(decision: Decision | str) -> str:
    name = decision.decision if isinstance(decision, Decision) else decision
    if not re.fullmatch("[0-9]+-[0-9]+", name):
        raise ClientError("expected a decision as `PERIOD-NUMBER`, for example 0-17")
    return name


def _numbers(what: str, values: Values) -> list[float]:
    """One number or several, of any kind that is one: also numpy's."""
    given: list[Any]
    try:
        given = list(values)  # type: ignore[arg-type]
    except TypeError:  # it is one, and so is an array without dimensions
        given = [values]
    try:
        return [value.__float__() for value in given]
    except (AttributeError, TypeError):
        raise ClientError(f"expected numbers as {what}, found {values!r}") from None


def _json(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        raise ClientError("expected finite numbers", "JSON has no others") from None


def _entries(found: Mapping[str, Any]) -> tuple[Sequence[Entry], int | None]:
    following = found.get("next")
    return [Entry.read(entry) for entry in found["entries"]], None if following is None else int(following)


def _read(answer: Answer, read: Callable[[Any], T]) -> T:
    return _parsed(answer.url, answer.body, read)


def _parsed(url: str, body: bytes, read: Callable[[Any], T]) -> T:
    """What an answer says; a service of another version may say it otherwise."""
    try:
        return read(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Strange(url, f"{type(error).__name__}: {error}") from None
