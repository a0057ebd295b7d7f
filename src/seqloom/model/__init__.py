"""A trained model: loaded from a run, it predicts, explains, evaluates, generates, embeds, streams and exports."""

from seqloom.model.inputs import AGAIN, check_not_empty
from seqloom.model.loading import load, with_unopened_data
from seqloom.model.model import Model

__all__ = ["AGAIN", "Model", "check_not_empty", "load", "with_unopened_data"]
