"""Committing to words early costs accuracy, and less so the longer the lag."""

from benchmarks.simulated_speech import AcousticModel
from benchmarks.stream_lag import error_rates, set_up


def test_a_long_lag_adds_no_errors_and_a_short_one_does() -> None:
    setup, model = set_up(words=200, sentences=100), AcousticModel("uncertain", 2.5, 1.0)
    for guide in setup.guides.values():
        offline, late, early = error_rates(setup, guide, model=model, lags=(0, 200, 2), count=8, frames=200)
        assert 0 < offline == late < early
