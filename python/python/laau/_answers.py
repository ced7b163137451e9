"""What `laau serve` answers, as `laau.client` gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Numbers = tuple[float, ...]


def _numbers(values: Any) -> Numbers:
    return tuple(float(value) for value in values)


def _numbers_if_any(values: Any) -> Numbers | None:
    return None if values is None else _numbers(values)


@dataclass(frozen=True)
class Decision:
    """A step that was decided, with its usage held."""

    decision: str
    """Its name, to settle it by: `0-17`."""
    period: int
    """The period."""
    step: int
    """The step, from 0; the horizon for one beyond it."""
    horizon: int
    """The number of steps of the period, those that passed unused not counted."""
    action: Numbers
    """The action."""
    multiplier: Numbers | None
    """The price of each budget, of a policy that has prices."""
    held: Numbers
    """What is held of each budget: the most that the decision can be settled by."""
    remaining: Numbers
    """What remains of each budget."""
    fallback: str | None
    """Why the action is the lower corner of the box and not the policy's."""
    guarded: bool
    """Whether the guard changed what was advised."""
    beyond_horizon: bool
    """Whether the lower corner was granted past the last step."""
    warning: str | None
    """What is odd about the context."""
    body: bytes = field(repr=False)
    """The answer as it came: every repetition of the request gets these bytes."""
    replayed: bool = field(compare=False)
    """Whether the request had been carried out before, and this is its stored answer."""

    @staticmethod
    def read(found: Mapping[str, Any], body: bytes, replayed: bool) -> Decision:
        return Decision(
            decision=str(found["decision"]),
            period=int(found["period"]),
            step=int(found["step"]),
            horizon=int(found["horizon"]),
            action=_numbers(found["action"]),
            multiplier=_numbers_if_any(found.get("multiplier")),
            held=_numbers(found["held"]),
            remaining=_numbers(found["remaining"]),
            fallback=found.get("fallback"),
            guarded=bool(found.get("guarded", False)),
            beyond_horizon=bool(found.get("beyond_horizon", False)),
            warning=found.get("warning"),
            body=body,
            replayed=replayed,
        )


@dataclass(frozen=True)
class Settled:
    """A decision that was settled or released."""

    decision: str
    """Its name."""
    settled: Numbers
    """What was used of each budget."""
    returned: Numbers
    """What returned to each budget."""
    remaining: Numbers
    """What remains of each budget of the decision's period."""
    body: bytes = field(repr=False)
    """The answer as it came: every repetition of the request gets these bytes."""
    replayed: bool = field(compare=False)
    """Whether the request had been carried out before, and this is its stored answer."""

    @staticmethod
    def read(found: Mapping[str, Any], body: bytes, replayed: bool) -> Settled:
        return Settled(
            decision=str(found["decision"]),
            settled=_numbers(found["settled"]),
            returned=_numbers(found["returned"]),
            remaining=_numbers(found["remaining"]),
            body=body,
            replayed=replayed,
        )


@dataclass(frozen=True)
class Period:
    """A period of an account. Times are milliseconds since 1970."""

    number: int
    """Its number, from 0."""
    began: int
    """When it began."""
    until: int | None
    """When it ends, for one by the clock."""
    budgets: Numbers
    """Its budgets."""
    remaining: Numbers
    """What remains of them; what is held does not."""
    held: Numbers
    """What is held and not yet settled, of each budget."""
    holds: int
    """The number of open holds."""
    step: int
    """The next step."""
    horizon: int
    """The number of steps, those that passed unused not counted."""
    granted: int
    """Decisions past the horizon."""
    multiplier: Numbers | None
    """The prices behind the last decision."""
    certificate: Mapping[str, Any] | None
    """What the guard has kept of its promise."""

    @staticmethod
    def read(found: Mapping[str, Any]) -> Period:
        return Period(
            number=int(found["number"]),
            began=int(found["began"]),
            until=found.get("until"),
            budgets=_numbers(found["budgets"]),
            remaining=_numbers(found["remaining"]),
            held=_numbers(found["held"]),
            holds=int(found["holds"]),
            step=int(found["step"]),
            horizon=int(found["horizon"]),
            granted=int(found["granted"]),
            multiplier=_numbers_if_any(found.get("multiplier")),
            certificate=found.get("certificate"),
        )


@dataclass(frozen=True)
class Account:
    """An account: a budget with a policy."""

    name: str
    """Its name."""
    spec: Mapping[str, Any]
    """Its settings, in the words of the API."""
    closed: bool
    """Whether it was closed."""
    context: int | None
    """How many numbers a context has, where the node that was asked knows."""
    period: Period | None
    """The open period."""

    @staticmethod
    def read(found: Mapping[str, Any]) -> Account:
        period = found.get("period")
        return Account(
            name=str(found["spec"]["name"]),
            spec=found["spec"],
            closed=bool(found["closed"]),
            context=found.get("context"),
            period=None if period is None else Period.read(period),
        )


@dataclass(frozen=True)
class Entry:
    """One line of the log of an account."""

    period: int
    """The period it belongs to."""
    number: int
    """Its place in the period, from 0 without gaps."""
    event: Mapping[str, Any]
    """What happened: `event["event"]` is opened, decided, granted, settled, released or skipped; the rest belongs to it."""
    request: Mapping[str, Any] | None
    """The request it came from, with its key and answer; none for what the clock did."""

    @staticmethod
    def read(found: Mapping[str, Any]) -> Entry:
        event = found["event"]
        event["event"]  # every event says what it is
        return Entry(int(found["period"]), int(found["number"]), event, found.get("request"))


@dataclass(frozen=True)
class Notice:
    """What a stream of events tells, after it is durable."""

    account: str
    """The account."""
    entry: Entry
    """The entry of its log."""
    period: Period
    """The open period after it."""

    @staticmethod
    def read(found: Mapping[str, Any]) -> Notice:
        return Notice(str(found["account"]), Entry.read(found["entry"]), Period.read(found["period"]))


@dataclass(frozen=True)
class Key:
    """An API key as it is shown: without its secret, which nobody has but its owner."""

    id: str
    """Its public name."""
    scope: str
    """What it allows: read, decide or admin."""
    account: str | None
    """The account it is for; all of them if none."""
    created: int
    """When it was made, in milliseconds since 1970."""
    token: str | None = field(default=None, repr=False)
    """The secret, of a key that was just made: it is shown once."""

    @staticmethod
    def read(found: Mapping[str, Any]) -> Key:
        return Key(
            id=str(found["id"]),
            scope=str(found["scope"]),
            account=found.get("account"),
            created=int(found["created"]),
            token=found.get("token"),
        )
