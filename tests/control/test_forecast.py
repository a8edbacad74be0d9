"""Forecasts are made once for everybody who asks in the same moment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from windlass.control.scheduler import forecast
from windlass.core.scheduling.model import Estimate
from windlass.core.units import Ms


@pytest.mark.parametrize(
    ("guess", "starts"),
    [(None, [None, None]), (Estimate(Ms(3000), Ms(2000), Ms(4000), ""), [Ms(3000), Ms(5000)])],
    ids=["nothing makes room", "at some pace"],
)
def test_those_far_back_are_asked_about_once(
    monkeypatch: pytest.MonkeyPatch, guess: Estimate | None, starts: list[Ms | None]
) -> None:
    asked: list[str] = []
    waiting = SimpleNamespace(shape=SimpleNamespace(gpu_class="h100-80g"))
    state: Any = SimpleNamespace(lines=SimpleNamespace(waiting={"a": waiting, "b": waiting}))
    monkeypatch.setattr(forecast, "estimates", lambda *_: {})

    def estimate(_state: object, id: str, _now: Ms) -> Estimate | None:
        asked.append(id)
        return guess

    monkeypatch.setattr(forecast, "estimate", estimate)
    told = forecast.Forecast(lambda: state, lambda: Ms(1000))
    assert [told.starts("a", 2), told.starts("b", 4)] == starts
    assert asked == ["a"]
