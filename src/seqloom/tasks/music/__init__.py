"""Music: frames of the keys of a piano, which a model continues frame by frame."""

from seqloom.tasks.music.music import Music

__all__ = ["Music"]
