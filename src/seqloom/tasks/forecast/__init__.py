"""Forecasting: the next values of time series, or the next frames of binary sequences such as piano rolls."""

from seqloom.tasks.forecast.forecast import Forecast
from seqloom.tasks.forecast.prediction import ForecastPrediction
from seqloom.tasks.forecast.settings import Learned

__all__ = ["Forecast", "ForecastPrediction", "Learned"]
