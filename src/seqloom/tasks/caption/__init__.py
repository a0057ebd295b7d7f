"""Captioning: an image, a video, sound or vectors to a sentence."""

from seqloom.tasks.caption.caption import Caption, CaptionPrediction
from seqloom.tasks.caption.settings import Learned

__all__ = ["Caption", "CaptionPrediction", "Learned"]
