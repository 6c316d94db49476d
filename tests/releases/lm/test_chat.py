"""Aug-PE on an address: a server on this machine that answers, stumbles, or refuses."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from synthleak.core.errors import GeneratorError
from synthleak.core.store import MemoryStore
from synthleak.corpus import Record
from synthleak.releases import Request
from synthleak.releases.generators.augpe import AugPe
from synthleak.releases.lm import chat
from synthleak.releases.lm.chat import PORTION, ChatWriter, RateLimiter, Usage
from synthleak.releases.release import public_side

SECRET = "zebra locker 4471 hums at night"
RECORDS = tuple(
    Record(str(n), f"{SECRET} number {n}", labels) for n, labels in enumerate([("a",), ("b",)] * 5)
)
SIDE = public_side(RECORDS, {("a",): 1, ("b",): 1}, description="notes from a hallway")


class Server:
    """Answers chat completions; `mood` decides how."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.seen: list[str] = []
        self.mood: Any = lambda number: 200
        self.headers: dict[str, str] = {}
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.seen.append(f"GET {self.path}")
                self.send_error(404)

            def do_POST(self) -> None:
                outer.seen.append(f"POST {self.path}")
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    outer.asked.append(body)
                    outer.keys.append(self.headers.get("Authorization"))
                    code = outer.mood(len(outer.asked))
                reply = outer.reply(body) if code == 200 else b"{}"
                self.send_response(200 if code == "garbage" else code)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b"not json" if code == "garbage" else reply)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}/v1"

    def reply(self, body: dict[str, Any]) -> bytes:
        text = f"Sure, here is one: a note about the hall number {body['seed'] % 1000}"
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        return json.dumps({"choices": [{"message": {"content": text}}], "usage": usage}).encode()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, args=(0.02,))
    thread.start()
    yield made
    made.http.shutdown()
    thread.join()
    made.http.server_close()


def writer(server: Server, store: MemoryStore | None = None, **settings: Any) -> ChatWriter:
    return ChatWriter(
        AugPe(address=server.address, model="m", **settings),
        {"max_tokens": 9},
        one_line=True,
        store=store,
        sleep=lambda seconds: None,
    )


def test_answers_come_in_order_are_cleaned_and_counted(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    made = writer(server, price_in=100.0, price_out=1000.0)
    answers = made.write(["q1", "q2"], [()] * 2, 2, [(7, 4)])
    seeds = {(b["messages"][0]["content"], b["seed"]) for b in server.asked}
    assert sorted(q for q, _ in seeds) == ["q1", "q1", "q2", "q2"]
    assert len(seeds) == len(answers) == 4
    assert all(answer.startswith("a note about the hall") for answer in answers)
    assert made.usage.requests == 4
    made.tell()
    assert "4 requests, 40 tokens in, 20 tokens out, cost 0.0240" in caplog.text
    assert (made.usage.tokens_in, made.usage.tokens_out) == (40, 20)
    assert made.usage.cost(100.0, 1000.0) == pytest.approx((40 * 100 + 20 * 1000) / 1e6)
    assert {b["max_tokens"] for b in server.asked} == {9}


@pytest.mark.parametrize(
    ("reason", "answer"),
    [("length", "It rained again."), ("stop", "It rained again. And we"), (None, None)],
)
def test_cut_answers_end_with_a_whole_sentence(
    server: Server, monkeypatch: pytest.MonkeyPatch, reason: str | None, answer: str | None
) -> None:
    choice: dict[str, Any] = {
        "message": {"content": "It rained again. And we"},
        "finish_reason": reason,
    }
    monkeypatch.setattr(server, "reply", lambda body: json.dumps({"choices": [choice]}).encode())
    assert writer(server).write(["q"], [()], 1, [(1, 1)]) == [answer or "It rained again. And we"]


def test_half_of_an_emoji_keeps_the_answer(server: Server) -> None:
    half = '{"choices": [{"message": {"content": "a note from here \\ud83d"}}]}'
    server.reply = lambda body: half.encode()  # type: ignore[method-assign]
    store = MemoryStore()
    (text,) = writer(server, store).write(["q"], [()], 1, [(1, 1)])
    assert text == "a note from here ?"
    assert writer(server, store).write(["q"], [()], 1, [(1, 1)]) == [text]
    assert len(server.asked) == 1


@pytest.mark.parametrize("trouble", [429, 500, 503, "garbage"])
def test_temporary_errors_are_retried(server: Server, trouble: Any) -> None:
    server.mood = lambda number: trouble if number <= 2 else 200
    waits: list[float] = []
    made = writer(server)
    made._sleep = waits.append
    assert made.write(["q"], [()], 1, [(1, 1)])[0].startswith("a note")
    assert len(server.asked) == 3
    assert waits == [0.5, 1.0]


@pytest.mark.parametrize(
    ("asked", "least", "most"),
    [("7", 7, 7), ("7.5", 7.5, 7.5), ("900", 60, 60), ("soon", 0.5, 0.5), ("-3", 0.5, 0.5)],
)
def test_retry_after_may_be_seconds(server: Server, asked: str, least: float, most: float) -> None:
    assert least <= waited(server, asked) <= most


def test_retry_after_may_be_a_date(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    monkeypatch.setattr(chat, "datetime", SimpleNamespace(now=lambda zone: now))
    assert waited(server, formatdate(now.timestamp() + 30, usegmt=True)) == 30
    assert waited(server, formatdate(now.timestamp() - 30, usegmt=True)) == 0.5


def waited(server: Server, asked: str) -> float:
    """Return the wait after a 429 with this Retry-After."""
    server.headers = {"Retry-After": asked}
    first = len(server.asked) + 1
    server.mood = lambda number: 429 if number == first else 200
    waits: list[float] = []
    made = writer(server)
    made._sleep = waits.append
    made.write(["q"], [()], 1, [(1, 1)])
    (wait,) = waits
    return wait


def test_rate_limit_of_the_spec_is_used(server: Server) -> None:
    waits: list[float] = []
    made = writer(server, requests_per_minute=60)
    made._sleep = waits.append
    made.write(["a", "b", "c"], [()] * 3, 1, [(1, 3)])
    assert sorted(waits) == pytest.approx([0, 1, 2], abs=0.5)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_key_is_shown_to_no_other_address(
    server: Server, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setenv("HALL_KEY", "s3cret")
    server.headers = {"Location": f"{server.address}/elsewhere"}
    server.mood = lambda number: code
    with pytest.raises(GeneratorError, match=f"returned {code}"):
        writer(server, key_variable="HALL_KEY").write(["q"], [()], 1, [(1, 1)])
    assert server.seen == ["POST /v1/chat/completions"]


def test_filtered_answer_is_empty_and_counted(server: Server) -> None:
    held = {"message": {"content": None}, "finish_reason": "content_filter"}
    usage = {"prompt_tokens": 10}
    server.reply = lambda body: json.dumps({"choices": [held], "usage": usage}).encode()  # type: ignore[method-assign]
    made = writer(server)
    assert made.write(["q"], [()], 1, [(1, 1)]) == [""]
    assert (made.usage.requests, made.usage.tokens_in) == (1, 10)


def test_usage_is_logged_when_a_run_fails(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.mood = lambda number: 200 if number <= 12 else 402
    made = AugPe(address=server.address, model="m", encoder="hashing", rounds=2, connections=1)
    request = Request(RECORDS, 10, 1, 4.0, 0.04, SIDE, 1, store=MemoryStore())
    with pytest.raises(GeneratorError, match="returned 402"):
        made.generate(request)
    assert "12 requests, 120 tokens in" in caplog.text


def test_nothing_is_told_where_nothing_was_answered(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.mood = lambda number: 402
    made = AugPe(address=server.address, model="m", encoder="hashing")
    with pytest.raises(GeneratorError, match="returned 402"):
        made.generate(Request(RECORDS, 10, 1, 4.0, 0.04, SIDE, 1))
    assert "so far" not in caplog.text


@pytest.mark.parametrize(
    "reply",
    [b'{"choices": [{"message": {"content": "x"}}], "usage": [1]}', b'{"choices": 3}', b"[]"],
)
def test_invalid_completion_is_a_one_line_error(
    server: Server, monkeypatch: pytest.MonkeyPatch, reply: bytes
) -> None:
    monkeypatch.setattr(server, "reply", lambda body: reply)
    with pytest.raises(GeneratorError, match=r"\(the answer is not a chat completion\)"):
        writer(server, retries=0).write(["q"], [()], 1, [(1, 1)])


@pytest.mark.parametrize(
    "readable_label",
    [b"not http at all\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{", b""],
)
def test_other_protocols_are_a_one_line_error(readable_label: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:

        def answer() -> None:
            caller, _ = door.accept()
            with caller:
                caller.recv(65536)
                caller.sendall(readable_label)

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"http://127.0.0.1:{door.getsockname()[1]}/v1"
        made = ChatWriter(
            AugPe(address=address, model="m", retries=0), {}, one_line=True, store=None
        )
        with pytest.raises(GeneratorError, match="no answer after 1 attempt ") as error:
            made.write(["q"], [()], 1, [(1, 1)])
        thread.join()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "address",
    [
        *("http://127.0.0.1:abc/v1", "http://host/a b", "http://", "ftp://host/v1"),
        *("http://a..b/v1", f"http://{'a' * 64}.org/v1", "http://host/é", "http://me:pass@host/v1"),
    ],
)
def test_a_wrong_address_is_rejected_before_any_request(address: str) -> None:
    with pytest.raises(ValueError, match="use an address"):
        AugPe(address=address, model="m")


def test_permanent_errors_are_not_retried(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALL_KEY", "s3cret")
    server.mood = lambda number: 401
    with pytest.raises(GeneratorError, match="returned 401") as error:
        writer(server, key_variable="HALL_KEY").write(["q"], [()], 1, [(1, 1)])
    assert len(server.asked) == 1
    assert server.address in str(error.value)
    assert "$HALL_KEY" in str(error.value)
    assert "s3cret" not in str(error.value)


def test_failing_address_is_a_one_line_error(server: Server) -> None:
    server.mood = lambda number: 500
    with pytest.raises(GeneratorError, match="no answer after 3 attempts") as error:
        writer(server, retries=2).write(["q"], [()], 1, [(1, 1)])
    assert "\n" not in str(error.value)


def test_unreachable_address_is_a_one_line_error() -> None:
    made = ChatWriter(
        AugPe(address="http://127.0.0.1:9", model="m", retries=1),
        {},
        one_line=True,
        store=None,
        sleep=lambda seconds: None,
    )
    with pytest.raises(GeneratorError, match=r"no answer after 2 attempts \(.*refused"):
        made.write(["q"], [()], 1, [(1, 1)])


def test_a_slow_address_is_not_waited_for(server: Server) -> None:
    server.mood = lambda number: time.sleep(0.6) or 200
    with pytest.raises(GeneratorError, match=r"no answer after 1 attempt \(.*timed out"):
        writer(server, retries=0, timeout=0.1).write(["q"], [()], 1, [(1, 1)])


def test_what_was_answered_is_not_asked_again(server: Server) -> None:
    store = MemoryStore()
    questions = [f"q{n}" for n in range(PORTION + 3)]
    server.mood = lambda number: 200 if number <= PORTION else 400
    with pytest.raises(GeneratorError):
        writer(server, store).write(questions, [()] * len(questions), 1, [(1, len(questions))])
    server.mood = lambda number: 200
    before = len(server.asked)
    answers = writer(server, store).write(
        questions, [()] * len(questions), 1, [(1, len(questions))]
    )
    assert len(server.asked) == before + 3
    assert len(set(answers)) > PORTION // 2


def test_the_key_comes_from_the_environment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HALL_KEY", "s3cret\r\n")
    writer(server, key_variable="HALL_KEY").write(["q"], [()], 1, [(1, 1)])
    assert server.keys == ["Bearer s3cret"]
    for odd in ("s3…cret", "s3\ncret"):
        monkeypatch.setenv("HALL_KEY", odd)
        with pytest.raises(GeneratorError, match="HALL_KEY") as error:
            writer(server, key_variable="HALL_KEY")
        assert "cret" not in str(error.value)
    monkeypatch.delenv("HALL_KEY")
    made = AugPe(
        address=server.address, model="m", key_variable="HALL_KEY", encoder={"kind": "hashing"}
    )
    with pytest.raises(GeneratorError, match="HALL_KEY holds no key"):
        made.check()


def test_rate_limit_spreads_requests_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat.time, "monotonic", lambda: 100.0)
    limiter = RateLimiter(600)
    waits: list[float] = []
    for _ in range(4):
        limiter.wait(waits.append)
    assert waits == pytest.approx([0, 0.1, 0.2, 0.3])
    RateLimiter(None).wait(waits.append)
    assert len(waits) == 4


def test_no_private_text_leaves_the_house(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    store = MemoryStore()
    made = AugPe(
        address=server.address, model="m", encoder="hashing", rounds=3, variations=2, connections=4
    )
    request = Request(RECORDS, 10, 4, 4.0, 0.04, SIDE, 1, store=store)
    (release,) = made.generate_many([request])
    assert len(release) == 4
    assert all(record.text.startswith("a note about the hall") for record in release)
    sent = json.dumps(server.asked)
    assert "zebra" not in sent
    assert "notes from a hallway" in sent
    assert "zebra" not in caplog.text
    # Four survivors of twelve, varied twice: what is asked is public arithmetic.
    assert len(server.asked) == 12 + 2 * 8
    assert "28 requests" in caplog.text
    # A second run finds every answer kept.
    assert list(made.generate_many([request])) == [release]
    assert len(server.asked) == 28


def test_connection_settings_are_not_part_of_identity() -> None:
    here = AugPe(address="http://127.0.0.1:1", model="m", encoder="hashing", timeout=3)
    there = AugPe(address="https://example.org/v1", model="m", encoder="hashing", price_in=2)
    assert here.identity() == there.identity()
    assert here.identity() != here.model_copy(update={"model": "n"}).identity()
    assert "backbone" not in here.identity()
    assert here.batch == 1
    assert not here.resources.gpus  # the model is elsewhere
    assert AugPe(encoder="hashing").resources.gpus


def test_usage_survives_a_server_that_does_not_count() -> None:
    usage = Usage()
    usage.add({})
    usage.add({"prompt_tokens": None})
    assert (usage.requests, usage.tokens_in) == (2, 0)
