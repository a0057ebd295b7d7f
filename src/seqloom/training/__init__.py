"""The training engine; knows neither tasks nor models."""
