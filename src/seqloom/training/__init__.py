"""The loop that makes a loss small; knows neither tasks nor models."""
