"""The client of `laau serve`, against the real service and against one that breaks."""

from __future__ import annotations

import doctest
import http.client
import json
import os
import pickle
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import laau
import laau._wire
import laau.client
import pytest
from documents import python_blocks
from laau.client import Client, ClientError, Dropped, NoAnswer, Refused, Strange
from service import SHOP, Fake, Service, half, lost, problem, say, whole


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path)
    yield service
    service.kill()


@pytest.fixture
def shop(service: Service) -> Client:
    client = service.client()
    client.create("shop", **SHOP)
    return client


def test_a_client_decides_settles_releases_and_looks(shop: Client) -> None:
    shop.create("shop", **SHOP)
    first = shop.decide("shop", 0.5)
    assert (first.decision, first.step, first.action, first.held, first.remaining) == ("0-0", 0, (25.0,), (25.0,), (75.0,))
    assert not (first.replayed or first.guarded or first.beyond_horizon)
    settled = shop.settle("shop", first, [10])
    assert (settled.settled, settled.returned, settled.remaining) == ((10.0,), (15.0,), (90.0,))
    again = shop.settle("shop", first.decision, 10.0)
    assert again == settled and again.replayed
    second = shop.decide("shop", [0.7])
    assert shop.release("shop", second).returned == second.held
    assert shop.skip("shop", 1).horizon == 3
    events = [entry.event["event"] for entry in shop.entries("shop", 0)]
    assert events == ["opened", "decided", "settled", "decided", "released", "skipped"]
    assert [entry.number for entry in shop.entries("shop", 0, start=4)] == [4, 5]
    assert shop.open("shop").number == 1
    assert shop.accounts() == [shop.account("shop")]
    assert shop.account("shop").spec["policy"] == {"name": "equal"}
    assert shop.close_account("shop").closed
    with pytest.raises(Refused, match="closed") as caught:
        shop.decide("shop", 0.5)
    assert (caught.value.status, caught.value.kind) == (410, "account-closed")


def test_the_same_key_gives_the_same_bytes(service: Service, shop: Client) -> None:
    first, again = (shop.decide("shop", 0.5, key="order-1") for _ in range(2))
    assert (first.replayed, again.replayed) == (False, True)
    assert again == first and again.body == first.body
    assert shop.account("shop").period.step == 1
    # These are the bytes on the wire, as any other client gets them.
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
    headers = {"Authorization": f"Bearer {service.key}", "Idempotency-Key": "order-1", "Content-Type": "application/json"}
    connection.request("POST", "/v1/accounts/shop/decisions", b'{"context":[0.5]}', headers)
    assert connection.getresponse().read() == first.body
    with pytest.raises(Refused) as caught:
        shop.decide("shop", 0.6, key="order-1")
    assert caught.value.kind == "key-reused"
    assert shop.decide("shop", 0.5).decision != first.decision


def test_an_answer_that_is_lost_or_broken_off_is_asked_for_again_and_decided_once(service: Service, shop: Client) -> None:
    busy = say(503, problem(503, "store"), "application/problem+json", Retry_After=0)
    between = Fake(lost(service.url), half(service.url), busy, say(502, "<html>", "text/html"), whole(service.url))
    decision = service.client(url=between.url).decide("shop", 0.5)
    assert (decision.decision, decision.replayed) == ("0-0", True)
    assert len(between.keys) == 5 and len(set(between.keys)) == 1
    assert shop.account("shop").period.step == 1


def test_a_request_over_a_killed_and_restarted_service_is_decided_once(service: Service, shop: Client) -> None:
    def again() -> None:
        service.kill()
        service.start()

    # Until the service is back, whoever stands between breaks the connection, too.
    between = Fake(lost(service.url, then=again), *[whole(service.url)] * 1000)
    decision = service.client(url=between.url).decide("shop", 0.5)
    assert decision.replayed and len(between.keys) > 1 and len(set(between.keys)) == 1
    assert [entry.event["event"] for entry in shop.entries("shop", 0)] == ["opened", "decided"]


def test_many_requests_through_kills_are_each_decided_once(service: Service) -> None:
    many = service.client()
    many.create("many", problem="weighted-fairness", policy="equal", budgets=4000, horizon=400)
    decided: list[laau.client.Decision] = []
    over = threading.Event()

    def decide() -> None:
        while not over.is_set():
            decided.append(many.decide("many", 0.5))

    threads = [threading.Thread(target=decide) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        reached = len(decided) + 10
        while len(decided) < reached:
            time.sleep(0.01)
        service.kill()
        service.start()
    many.account("many")
    over.set()
    for thread in threads:
        thread.join(60)
    log = [entry for entry in many.entries("many", 0) if entry.event["event"] in ("decided", "granted")]
    assert len(decided) >= 30
    assert len({decision.decision for decision in decided}) == len(decided)
    assert sorted(decision.body.decode() for decision in decided) == sorted(entry.request["answer"] for entry in log)
    period = many.account("many").period
    assert period.remaining[0] == 4000 - sum(decision.held[0] for decision in decided)


def test_refusals_carry_their_problem_documents(service: Service, shop: Client) -> None:
    stranger = service.client(key=service.key[:-1] + ("0" if service.key[-1] != "0" else "1"))
    reader = service.client(key=shop.make_key("read").token)
    held = shop.decide("shop", 0.5)
    for call, status, kind, words in [
        (lambda: stranger.accounts(), 401, "unauthorized", "expected a valid API key in the Authorization header"),
        (lambda: reader.decide("shop", 0.5), 403, "forbidden", "the API key does not allow this"),
        (lambda: shop.decide("nobody", 0.5), 404, "unknown-account", "no account `nobody`"),
        (lambda: shop.settle("shop", "0-17", 1), 404, "unknown-decision", "no decision 0-17"),
        (lambda: shop.settle("shop", held, 25.5), 422, "refused", "budget 0: 25.5 settled, 25 held"),
        (lambda: shop.decide("shop", [0.5, 0.7]), 422, "refused", "expected 1 values for context, found 2"),
        (lambda: shop.create("shop", **{**SHOP, "horizon": 5}), 409, "account-exists", "exists already"),
        (lambda: shop.create("other", **{**SHOP, "policy": "eqaul"}), 422, "unknown-policy", "did you mean `equal`?"),
    ]:
        with pytest.raises(Refused) as caught:
            call()
        error = caught.value
        assert (error.status, error.kind) == (status, kind), error
        assert error.type == f"urn:laau:problem:{kind}" and error.problem["title"] == error.title
        assert words in error.detail, error
        assert str(error) == f"{error.title} ({status}): {error.detail}"
        assert error.attempts == 1
    # Nothing has changed, and the key of the refused settlement is still good.
    assert shop.settle("shop", held, 25).returned == (0.0,)


def test_a_stream_tells_what_happens_and_ends_with_the_service(service: Service, shop: Client) -> None:
    shop.decide("shop", 0.5)
    with shop.events("shop") as events:
        decision = shop.decide("shop", 0.7, key="order-2")
        shop.settle("shop", decision, 5)
        decided, settled = next(events), next(events)
        assert (decided.account, decided.entry.number, decided.entry.event["context"]) == ("shop", 2, [0.7])
        assert decided.entry.request["answer"].encode() == decision.body
        assert (settled.entry.event["event"], settled.period.remaining) == ("settled", (70.0,))
        service.stop(signal.SIGTERM)
        assert list(events) == []
    with pytest.raises(StopIteration):
        next(events)
    service.start()
    events = shop.events("shop")
    service.kill()
    with pytest.raises(NoAnswer):
        next(events)
    service.start()


def test_a_stream_is_read_as_its_format_says() -> None:
    period = {"number": 0, "began": 0, "until": None, "budgets": [1], "remaining": [1], "held": [0]}
    period |= {"holds": 0, "step": 0, "horizon": 4, "granted": 0, "multiplier": None, "certificate": None}
    entry = {"period": 0, "number": 0, "event": {"event": "skipped", "steps": 1}}
    notice = json.dumps({"account": "shop", "entry": entry, "period": period}, indent=1)
    lines = "".join(f"data:{line}\r\n" for line in notice.splitlines())
    text = f": listening\n\nevent: other\ndata: x\n\nevent: entry\nid: 0-0\n{lines}\nevent: dropped\ndata: 7\n\n"
    events = Client(Fake(say(200, text, "text/event-stream")).url).events("shop")
    assert next(events).entry.event == {"event": "skipped", "steps": 1}
    with pytest.raises(Dropped, match="behind by 7 events"):
        next(events)
    assert list(events) == []


def test_keys_are_made_listed_and_revoked(service: Service, shop: Client) -> None:
    made = shop.make_key("decide", "shop")
    assert made.token.startswith(f"laau_{made.id}_") and made.token not in repr(made)
    user = service.client(key=f"{made.token}\n")
    user.decide("shop", 0.5)
    keys = shop.keys()
    listed = {key.id: (key.scope, key.account, key.token) for key in keys}
    assert len(listed) == 2 and listed[made.id] == ("decide", "shop", None)
    shop.revoke_key(made)
    with pytest.raises(Refused) as caught:
        user.decide("shop", 0.5)
    assert caught.value.status == 401
    with pytest.raises(Refused) as caught:
        shop.revoke_key(made.id)
    assert caught.value.kind == "unknown-key"
    # Revoked by the attempt whose answer was lost: not a mistake of the caller's.
    between = Fake(say(503, problem(503, "store")), say(404, problem(404, "unknown-key")))
    Client(between.url, pause=0.01).revoke_key(made)
    # A key is made once: of the second one nobody would know the secret.
    with pytest.raises(Refused):
        Client(Fake(say(503, problem(503, "store"))).url).make_key("read")


def test_a_busy_service_is_asked_again_when_it_says_and_not_for_ever() -> None:
    busy = say(503, problem(503, "overloaded"), Retry_After=1)
    accounts = say(200, '{"accounts":[]}')
    began = time.monotonic()
    assert Client(Fake(busy, accounts).url, pause=0.001).accounts() == []
    assert time.monotonic() - began >= 1.0
    server = Fake(*[say(429, problem(429, "too-fast"))] * 100)
    with pytest.raises(Refused, match="too-fast") as caught:
        Client(server.url, pause=0.01, patience=0.1).accounts()
    # Pauses of 10, 20 and 40 ms: a fifth attempt would begin after 150.
    assert 2 <= caught.value.attempts == len(server.keys) <= 4
    with pytest.raises(Refused) as caught:
        Client(Fake(busy).url, patience=0.5).accounts()
    assert caught.value.attempts == 1


def test_nobody_there_is_told_after_all_patience() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(NoAnswer, match="refused") as caught:
            Client(url, patience=0.05, pause=0.01).accounts()
    assert isinstance(caught.value.__cause__, OSError)


def test_a_request_follows_its_account_to_the_node_that_has_it(service: Service, shop: Client) -> None:
    moved = say(307, problem(307, "elsewhere", address=f"{service.url}/"))
    other = Fake(moved, moved)
    assert service.client(url=other.url).decide("shop", 0.5).step == 0
    assert len(other.keys) == 1
    circle = Fake()
    circle.says = [say(307, problem(307, "elsewhere", address=circle.url))] * 5
    with pytest.raises(NoAnswer, match="from node to node"):
        Client(circle.url, patience=0).accounts()


def test_tls_is_checked_and_never_left(tmp_path: Path) -> None:
    place = tmp_path / "key.pem", tmp_path / "cert.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    try:
        subprocess.run([*made, *names, "-keyout", place[0], "-out", place[1]], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no openssl to make a certificate with")
    service = Service(tmp_path, "--tls-cert", str(place[1]), "--tls-key", str(place[0]))
    try:
        url = service.url.replace("http", "https")
        client = Client(url, service.key, trusted=place[1], pause=0.01)
        client.create("shop", **SHOP)
        assert client.decide("shop", 0.5).held == (25.0,)
        with pytest.raises(NoAnswer, match="certificate verify failed"):
            Client(url, service.key, patience=1e6).accounts()
    finally:
        service.kill()
    with pytest.raises(ClientError, match="expected a certificate in PEM format"):
        Client(url, trusted=place[0])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place[1], place[0])
    fake = Fake(say(307, problem(307, "elsewhere", address="http://127.0.0.1:1")))
    fake.socket = context.wrap_socket(fake.socket, server_side=True)
    with pytest.raises(Strange, match="without TLS"):
        Client(fake.url.replace("http", "https"), trusted=place[1]).accounts()


def test_what_cannot_be_meant_is_refused_before_it_is_sent() -> None:
    nowhere = Client("http://127.0.0.1:1", patience=0)
    for call in [
        lambda: Client("127.0.0.1:7171"),
        lambda: Client("http://user:word@127.0.0.1:7171"),
        lambda: Client("http://127.0.0.1:seven"),
        lambda: Client("http://127.0.0.1:7171", "a key\r\nX-Other: 1"),
        lambda: nowhere.account("../keys"),
        lambda: nowhere.account(""),
        lambda: nowhere.decide("shop", float("nan")),
        lambda: nowhere.decide("shop", "0.5"),
        lambda: nowhere.decide("shop", [[0.5], [0.7]]),
        lambda: nowhere.decide("shop", None),
        lambda: nowhere.decide("shop", 0.5, key="order 1"),
        lambda: nowhere.settle("shop", "0-1/../2", 1),
        lambda: nowhere.revoke_key("../accounts"),
    ]:
        with pytest.raises(ClientError) as caught:
            call()
        assert not isinstance(caught.value, NoAnswer)
    np = pytest.importorskip("numpy")
    for one in (0.5, [0.5], np.float32(0.5), np.array(0.5), np.array([0.5])):
        assert laau.client._numbers("context", one) == [0.5]


def test_answers_of_something_else_are_strange() -> None:
    for answer in [
        say(200, "<html>", "text/html"),
        say(200, '{"accounts":[{}]}'),
        say(200, "[]"),
        say(404, "<html>", "text/html"),
        say(404, '{"status":404}'),
    ]:
        with pytest.raises(Strange, match="expected an answer of laau serve from http://"):
            Client(Fake(answer).url).accounts()


def test_connections_are_kept_but_not_through_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Fake(*[say(200, '{"accounts":[]}')] * 6)
    client = Client(server.url)
    client.accounts()
    client.accounts()
    assert server.connections == 1
    if hasattr(os, "fork"):
        child = os.fork()
        if child == 0:
            os._exit(len(client.accounts()))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert server.connections == 2
        client.accounts()
        assert server.connections == 2
    # One that the service may have closed by now is not used again.
    monkeypatch.setattr(laau._wire, "LONGEST_IDLE", 0.0)
    before = server.connections
    client.accounts()
    assert server.connections == before + 1


def test_errors_can_be_pickled() -> None:
    document = json.loads(problem(409, "exhausted"))
    for error in (Refused(document, 2), NoAnswer("http://x", "silence"), Strange("http://x", "noise"), ClientError("a", "b")):
        back = pickle.loads(pickle.dumps(error))
        assert type(back) is type(error) and str(back) == str(error) and vars(back) == vars(error)
        assert isinstance(back, laau.Error)


def test_the_client_needs_neither_the_extension_nor_numpy() -> None:
    script = (
        "import sys; sys.modules['laau._laau'] = sys.modules['numpy'] = None\n"
        "import laau.client, laau; print(laau.client.Client('http://127.0.0.1:7171').url, laau.Error.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("http://127.0.0.1:7171 Error\n", "")


def test_the_examples_are_what_the_service_answers(service: Service) -> None:
    finder = doctest.DocTestFinder(recurse=True)
    runner = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE)
    shared = {"key": service.key, "client": service.client()}
    for module in (laau.client, laau._wire):
        for example in sorted(finder.find(module), key=lambda example: example.lineno or 0):
            text = example.docstring.replace('http://127.0.0.1:7171", key', f'{service.url}", key')
            runner.run(doctest.DocTestParser().get_doctest(text, shared, example.name, None, 0), clear_globs=False)
    assert runner.failures == 0
    assert runner.tries >= 15


def test_the_readme_is_what_the_service_takes(service: Service, tmp_path: Path) -> None:
    (tmp_path / "admin.key").write_text(f"{service.key}\n")
    (block,) = python_blocks("laau.client")
    script = block.replace("http://127.0.0.1:7171", service.url)
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path, timeout=60)
