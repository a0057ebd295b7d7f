"""Custom layers and cells with which runs of the studio were trained."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

from seqloom.run import Run
from seqloom.run_config import NamedLayer, find_named_layers
from seqloom.run_summary import flatten


class CustomLayers:
    """Custom layers by the name that a run keeps of them; each is given as module:name."""

    def __init__(self, given: Sequence[str] = ()) -> None:
        self._layers = {layer.name: layer for layer in find_named_layers(given)}

    def find(self, path: Path) -> NamedLayer:
        """The custom layer of a run; one without a factory: it has none."""
        name = self._needed(path)
        return self._layers[name] if name else NamedLayer()

    def options(self, path: Path) -> list[str]:
        """The options with which a command loads a run."""
        place = self.find(path).place
        return ["--layer", place] if place else []

    def _needed(self, path: Path) -> str:
        """The name of the custom layer of a run; ValueError if it was not given."""
        settings = flatten(tomllib.loads(Run.open(path).config))
        name = next((str(value) for key, value in settings if key.endswith(".custom_layer") and value), "")
        if name and name not in self._layers:
            raise ValueError(
                f"{path.name} was trained with the custom layer {name}: start the studio with "
                f"--layer MODULE:{name}, in the folder of that module"
            )
        return name
