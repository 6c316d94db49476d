"""What goes into a page that must not reach out: scripts, styles, packed data and the policy."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from markupsafe import Markup


def asset(name: str) -> str:
    """Return a script or style of the pages, by its name in `templates/`."""
    return (files("synthleak.report") / "templates" / name).read_text(encoding="utf-8")


def packed(content: Any) -> Markup:
    """Return content as gzipped JSON in base64: small, and free of any sign that HTML knows.

    >>> packed({"id": "</script>"}) == Markup(str(packed({"id": "</script>"})))
    True
    >>> any(sign in packed({"id": "</script>"}) for sign in "<>&'")
    False
    """
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode())


def policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """Return a content policy under which these scripts and styles run, and nothing else does."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts)) or chr(39) + 'none' + chr(39)}",
            f"style-src {' '.join(map(_hash, styles))}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
