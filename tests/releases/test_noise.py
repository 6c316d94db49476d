"""The noise of a budget is searched for once."""

from __future__ import annotations

import pytest

from synthleak.releases import claim, gaussian_sigma


def test_noise_found_elsewhere_is_not_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "_sigmas", {})
    claim.learn_sigmas({(3.0, 1e-5, 1, 1.0): 0.25})
    assert gaussian_sigma(3.0, 1e-5) == 0.25
    assert gaussian_sigma(1.0, 1e-5) > 1
    assert set(claim.known_sigmas()) == {(3.0, 1e-5, 1, 1.0), (1.0, 1e-5, 1, 1.0)}
