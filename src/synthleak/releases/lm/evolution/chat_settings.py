"""Settings of a chat-completions address, its usage so far, and the rate limit."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from synthleak.core.errors import GeneratorError


@dataclass(frozen=True)
class ChatSettings:
    """The address, its model and key, and limits and prices."""

    address: str
    model: str
    key_variable: str = ""
    requests_per_minute: float | None = None
    connections: int = 8
    retries: int = 5
    timeout: float = 60.0
    price_in: float = 0.0
    price_out: float = 0.0

    def key(self) -> str:
        """Return the key from the environment; empty if none is needed."""
        if not self.key_variable:
            return ""
        key = os.environ.get(self.key_variable, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            what = "a key with invalid characters" if key else "no key"
            raise GeneratorError(
                f"the environment variable {self.key_variable} holds {what}",
                self.address,
                f"export {self.key_variable}=…, or set key_variable = '' if none is needed",
            )
        return key


@dataclass
class Usage:
    """What was used, and what that costs."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, usage: dict[str, Any]) -> None:
        """Count one answer."""
        with self._lock:
            self.requests += 1
            self.tokens_in += int(usage.get("prompt_tokens") or 0)
            self.tokens_out += int(usage.get("completion_tokens") or 0)

    def cost(self, settings: ChatSettings) -> float:
        """Return the price of what was used; prices are per million tokens."""
        return (self.tokens_in * settings.price_in + self.tokens_out * settings.price_out) / 1e6


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
        """Return when it is this caller's turn."""
        if not self._gap:
            return
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._gap
        sleep(max(0.0, turn - now))
