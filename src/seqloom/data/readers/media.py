"""Sound, feature files, images and videos: a file, or a folder of frames, as an array."""

from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers import audio_files, feature_files, pixels, videos
from seqloom.data.readers.audio_files import Audio
from seqloom.data.readers.file_lists import ContentError
from seqloom.data.readers.pixels import Resize

Kind = Literal["vectors", "sound", "image", "video"]
SUFFIXES = (*audio_files.SUFFIXES, *feature_files.SUFFIXES, *pixels.SUFFIXES, *videos.SUFFIXES)


class Signal(NamedTuple):
    """The content of a file."""

    values: NDArray[Any]  # sound (N,), vectors (T, D), an image (H, W, 3), or the frames of a video (T, H, W, 3)
    rate: int = 0  # samples per second of sound

    @property
    def kind(self) -> Kind:
        return kind_of(self.values, self.rate)


def kind_of(values: NDArray[Any], rate: int) -> Kind:
    kinds: dict[int, Kind] = {2: "vectors", 3: "image", 4: "video"}
    return "sound" if rate else kinds[values.ndim]


@dataclass(frozen=True)
class MediaDecoder:
    """Turns files and arrays into signals of one size."""

    sample_rate: int = 0  # resample sound to this rate in Hz; 0: keep its rate
    n_mfcc: int = 13  # features per frame of a Sphinx file
    image_size: int = 64  # height and width of images and frames, in pixels
    resize: Resize = "crop"
    line_height: int = 0  # read an image as the columns of a text line of this height; 0: as a square

    def decode(self, stream: IO[bytes], name: str) -> Signal:
        """The content of a file; ContentError if it is invalid."""
        suffix = Path(name).suffix.lower()
        if suffix in videos.SUFFIXES:
            return Signal(videos.decode(stream, size=self.image_size, resize=self.resize))
        if suffix in pixels.SUFFIXES:
            if self.line_height:
                return Signal(pixels.decode_line(stream, height=self.line_height))
            return Signal(pixels.decode(stream, size=self.image_size, resize=self.resize))
        if suffix in feature_files.ARRAYS:
            return self.from_array(feature_files.read(stream, name))
        if suffix in feature_files.SUFFIXES:
            return Signal(feature_files.decode(stream, name, size=self.n_mfcc))
        if suffix not in audio_files.SUFFIXES and pixels.is_image(stream):
            return self.decode(stream, pixels.SUFFIXES[0])
        return self.resampled(audio_files.decode(stream))

    def read_folder(self, folder: Path) -> Signal:
        """The images of a folder as a video."""
        return Signal(videos.read_folder(folder, size=self.image_size, resize=self.resize))

    def from_array(self, values: NDArray[Any]) -> Signal:
        """Frames (T, D), pixels (H, W), (H, W, 3) or (T, H, W, 3) of uint8, or samples (N,) at ``sample_rate``."""
        if values.dtype == np.uint8 and values.ndim > 1:
            if values.ndim == 4:
                return Signal(videos.from_array(values, size=self.image_size, resize=self.resize))
            if self.line_height:
                return Signal(pixels.line_from_array(values, height=self.line_height))
            if values.ndim == 3 and values.shape[2] != 3:
                raise ContentError(
                    f"expected an image (height, width, 3) or a video (frames, height, width, 3), found {values.shape}"
                )
            return Signal(pixels.from_array(values, size=self.image_size, resize=self.resize))
        if values.ndim == 1 and self.sample_rate:
            return Signal(audio_files.check_samples(audio_files.to_samples(values)), self.sample_rate)
        return Signal(feature_files.check_frames(values))

    def from_audio(self, audio: Audio) -> Signal:
        """Audio in memory; samples of integers are scaled."""
        audio_files.check_rate(audio.rate)
        samples = audio_files.check_samples(audio_files.to_samples(audio.samples))
        return self.resampled(Audio(samples, audio.rate))

    def resampled(self, audio: Audio) -> Signal:
        rate = self.sample_rate or audio.rate
        return Signal(audio_files.resample(audio.samples, audio.rate, rate), rate)
