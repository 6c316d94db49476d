"""Answers from a chat-completions address, with retries, a rate limit and a count of tokens.

No private text is ever sent: prompts are made of the description, labels, styles and synthetic
texts. Answers are stored in portions, so that a run that breaks off does not pay twice.
"""

from __future__ import annotations

import gzip
import json
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from synthleak.core.cell import counted
from synthleak.core.errors import GeneratorError
from synthleak.core.seeds import derive, digest
from synthleak.core.store import Store, keep, unpacked
from synthleak.corpus.corpus import Labels
from synthleak.releases.lm.prompts import clean_answer, whole_sentences

if TYPE_CHECKING:
    from synthleak.releases.generators.augpe import AugPe

log = logging.getLogger("synthleak.releases")

PORTION = 64
"""Answers that are stored together: the most that an interruption loses."""

_RETRIED = (408, 409, 425, 429)
_FAILURES = (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError)
"""Errors from an address that cannot be reached or does not speak the protocol."""
_LONGEST_WAIT = 60.0


@dataclass
class Usage:
    """What was used, and what that costs."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, usage: dict[str, Any]) -> None:
        with self._lock:
            self.requests += 1
            self.tokens_in += int(usage.get("prompt_tokens") or 0)
            self.tokens_out += int(usage.get("completion_tokens") or 0)

    def cost(self, price_in: float, price_out: float) -> float:
        """Return the price of what was used; prices are per million tokens."""
        return (self.tokens_in * price_in + self.tokens_out * price_out) / 1e6


@cache
def usage_of(address: str, model: str) -> Usage:
    """Return what this process has used of a model at an address, over all its releases."""
    return Usage()


class RateLimiter:
    """Limits requests per minute, evenly spread, over all threads."""

    def __init__(self, per_minute: float | None) -> None:
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self, sleep: Callable[[float], None] = time.sleep) -> None:
        if not self._gap:
            return
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._gap
        sleep(max(0.0, turn - now))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the key would be sent to another address."""

    def redirect_request(self, *args: Any) -> None:
        """Do not follow it, so that the response stays an error (a 301, say)."""


_OPENER = urllib.request.build_opener(_NoRedirect)


class ChatWriter:
    """Writes texts through an address that speaks the chat-completions protocol."""

    def __init__(
        self,
        generator: AugPe,
        decoding: dict[str, Any],
        *,
        one_line: bool,
        store: Store | None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings, self._key = generator, generator.api_key()
        self._address = generator.address or ""
        self._decoding = decoding
        self._one_line = one_line
        self._store = store
        self._limiter = RateLimiter(generator.requests_per_minute)
        self._sleep = sleep
        self.usage = usage_of(self._address, generator.model)

    def write(
        self,
        requests: Sequence[str],
        labels: Sequence[Labels],
        each: int,
        owners: Sequence[tuple[int, int]],
        written: Callable[[Sequence[str]], None] = lambda texts: None,
    ) -> list[str]:
        """Answer every request `each` times, in portions that are stored.

        Answers cost money, so none is requested again, even if it only repeats its labels.
        Waiting for them takes so long that `written` is not told of any.
        """
        seeds = [derive(seed, "answer", number) for seed, rows in owners for number in range(rows)]
        prompts = [request for request in requests for _ in range(each)]
        answers: list[str] = []
        for start in range(0, len(prompts), PORTION):
            part = slice(start, start + PORTION)
            answers += self._portion(prompts[part], seeds[part])
        return [clean_answer(answer, one_line=self._one_line) for answer in answers]

    def tell(self) -> None:
        """Log what this process has used so far, if anything."""
        settings, usage = self._settings, self.usage
        if not usage.requests:
            return
        log.warning(
            "%s so far: %d requests, %d tokens in, %d tokens out, cost %.4f",
            self._address,
            usage.requests,
            usage.tokens_in,
            usage.tokens_out,
            usage.cost(settings.price_in, settings.price_out),
        )

    def _portion(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
        key = digest("answers", 2, self._settings.model, self._decoding, list(prompts), list(seeds))

        def ask() -> list[str]:
            with ThreadPoolExecutor(self._settings.connections) as pool:
                return list(pool.map(self._answer, prompts, seeds))

        return (
            ask() if self._store is None else keep(self._store, "answers", key, ask, _dump, _load)
        )

    def _answer(self, request: str, seed: int) -> str:
        """Retry until there is an answer, with growing waits; permanent errors are not retried."""
        body = {
            "model": self._settings.model,
            "messages": [{"role": "user", "content": request}],
            "seed": seed % 2**31,
            **self._decoding,
        }
        reason = ""
        for attempt in range(self._settings.retries + 1):
            self._limiter.wait(self._sleep)
            try:
                return self._ask(body)
            except urllib.error.HTTPError as error:
                error.close()
                if error.code < 500 and error.code not in _RETRIED:
                    raise self._refused(
                        f"the server returned {error.code} {error.reason}", error.code
                    ) from None
                reason, wait = f"{error.code} {error.reason}", _retry_after(error)
            except _FAILURES as error:
                reason, wait = _words(error), 0.0
            if attempt < self._settings.retries:
                self._sleep(min(_LONGEST_WAIT, max(wait, 0.5 * 2**attempt)))
        tries = counted(self._settings.retries + 1, "attempt")
        raise self._refused(f"no answer after {tries} ({reason})")

    def _ask(self, body: dict[str, Any]) -> str:
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        url = f"{self._address.rstrip('/')}/chat/completions"
        message = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with _OPENER.open(message, timeout=self._settings.timeout) as reply:
            content = json.loads(reply.read())
        choice = content["choices"][0]
        text = choice["message"]["content"]
        if text is not None and not isinstance(text, str):
            raise ValueError("an answer without text")
        self.usage.add(content.get("usage") or {})
        if text is None:  # withheld by a filter, which would withhold it again
            return ""
        # Half of a surrogate pair, as of an emoji that was cut, cannot be written to a file.
        text = text.encode("utf-8", "replace").decode()
        return whole_sentences(text) if choice.get("finish_reason") == "length" else text

    def _refused(self, what: str, code: int = 0) -> GeneratorError:
        variable = self._settings.key_variable
        cause = f"check the key in ${variable}" if variable and code in (401, 403) else "fix this"
        kept = f": all but the last {PORTION} answers are kept" if self._store is not None else ""
        return GeneratorError(what, self._address, f"{cause} and run again{kept}")


def _retry_after(error: urllib.error.HTTPError) -> float:
    """Return the seconds to wait of a Retry-After header, given as seconds or as a date."""
    header = error.headers.get("Retry-After") or "0"
    try:
        if header.replace(".", "", 1).isdigit():
            return float(header)
        return (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):  # no date, or one without a zone
        return 0.0


def _words(error: Exception) -> str:
    """Describe an error without what was sent or received."""
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    if isinstance(error, OSError):
        return str(error) or type(error).__name__
    return "the answer is not a chat completion"


def _dump(answers: list[str]) -> bytes:
    return gzip.compress(json.dumps(answers, ensure_ascii=False).encode(), mtime=0)


def _load(data: bytes) -> list[str]:
    answers: list[str] = json.loads(unpacked(data))
    return answers
