"""Trained models as ONNX graphs, which run without torch and Seqloom."""
