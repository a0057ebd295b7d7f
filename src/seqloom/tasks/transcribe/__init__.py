"""Transcription: speech, handwriting or pen strokes to text, without a given alignment."""

from seqloom.tasks.transcribe.settings import Learned
from seqloom.tasks.transcribe.transcribe import Transcribe

__all__ = ["Learned", "Transcribe"]
