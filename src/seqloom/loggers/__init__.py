"""Listeners that pass a training run on to TensorBoard, MLflow or Weights & Biases."""
