"""Reaching a Ray cluster; `test_ray_engine.py` works on one."""

from __future__ import annotations

import pytest

from synthleak.core.engine import ray_cluster


def test_an_address_where_nobody_listens_is_refused_at_once() -> None:
    assert ray_cluster._knock("local") is None
    with pytest.raises(ConnectionRefusedError):
        ray_cluster._knock("127.0.0.1:1")
