"""The colours of a finished figure for a dark background: lightness is inverted, hue and contrast stay.

A plot is drawn once, in the colours of ``plotting``. Before it is written, each colour and each colour map is converted
in OKLab (Ottosson 2020), where equal steps of lightness look equal. Pictures of data, such as photographs and
spectrograms, are not changed.
"""

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = get_args(Theme)

Array = NDArray[np.float64]

PICTURES = ("gray", "magma")
"""Colour maps of photographs, scanned lines and spectrograms."""
DARKEST, LIGHTEST = 0.21, 0.97  # OKLab lightness of the background, and of the brightest text
MIDTONES = 0.85  # exponent below 1: greys and accents are lifted from the background
TINT = -0.008  # towards blue: a neutral dark grey looks brown beside blue curves
STEPS = 256  # of a colour map
DARK = "dark_"  # before the name of a colour map that is converted; a colorbar shares that of its image

_TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def oklab(rgb: Array) -> Array:  # (…, 3) → (…, 3)
    """Lightness, green to red and blue to yellow of sRGB colours."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    result: Array = np.cbrt(linear @ _TO_CONES.T) @ _TO_LAB.T
    return result


def from_oklab(lab: Array) -> Array:  # (…, 3) → (…, 3)
    """The sRGB colours; those that no screen can show are clipped."""
    linear = ((lab @ np.linalg.inv(_TO_LAB).T) ** 3) @ np.linalg.inv(_TO_CONES).T
    positive = np.clip(linear, 0, 1)
    result: Array = np.where(positive <= 0.0031308, 12.92 * positive, 1.055 * positive ** (1 / 2.4) - 0.055)
    return result


def dark_colours(rgba: Array) -> Array:  # (…, 4) → (…, 4)
    """The same colours for a dark background: white becomes the background, black the brightest text."""
    lab = oklab(rgba[..., :3])
    inverted = np.clip(1 - lab[..., :1], 0, 1) ** MIDTONES
    lightness = np.minimum(DARKEST + inverted * (1.19 - DARKEST), LIGHTEST)
    tint = np.array([0.0, TINT]) * (1 - lightness)
    return np.concatenate([from_oklab(np.concatenate([lightness, lab[..., 1:] + tint], -1)), rgba[..., 3:]], -1)


def dark_colour(colour: Any) -> Any:
    """One colour of matplotlib, or several; what is no colour, such as ``none``, is returned as it is."""
    from matplotlib.colors import to_rgba_array

    if isinstance(colour, str) and colour in {"none", "auto", "inherit"}:
        return colour
    rgba = to_rgba_array(colour)
    if not len(rgba):
        return colour
    if len(rgba) == 1 and rgba[0, 3] == 0:
        return "none"  # a patch with an alpha of its own would make it visible
    converted = dark_colours(rgba)
    return tuple(converted[0].tolist()) if len(converted) == 1 else converted


def dark_colour_map(colours: Any) -> Any:
    """A colour map for a dark background."""
    from matplotlib.colors import ListedColormap

    if colours.name in PICTURES or colours.name.startswith(DARK):
        return colours
    return ListedColormap(dark_colours(colours(np.linspace(0, 1, STEPS))), name=f"{DARK}{colours.name}")


def darken(figure: "Figure") -> None:
    """Convert every colour of a figure."""
    from matplotlib.axis import Axis
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import Collection
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Text

    seen: set[int] = set()
    for artist in figure.findobj(include_self=True):
        if id(artist) in seen:
            continue
        seen.add(id(artist))
        if isinstance(artist, Axis):  # ticks that are made later
            _darken_ticks(artist)
        if isinstance(artist, ScalarMappable) and artist.get_array() is not None:
            artist.set_cmap(dark_colour_map(artist.get_cmap()))
        if isinstance(artist, Patch):
            _darken_patch(artist)
        elif isinstance(artist, Collection):
            faces, edges = artist.get_facecolor(), artist.get_edgecolor()
            if artist.get_array() is None and len(faces):
                artist.set_facecolor(dark_colour(faces))
            if len(edges):
                artist.set_edgecolor(dark_colour(edges))
        elif isinstance(artist, Line2D):
            marker, edge = artist.get_markerfacecolor(), artist.get_markeredgecolor()
            artist.set_color(dark_colour(artist.get_color()))
            artist.set_markerfacecolor(dark_colour(marker))
            artist.set_markeredgecolor(dark_colour(edge))
        elif isinstance(artist, Text):
            artist.set_color(dark_colour(artist.get_color()))
            for patch in (artist.get_bbox_patch(), getattr(artist, "arrow_patch", None)):  # no children of a text
                if patch is not None and id(patch) not in seen:
                    seen.add(id(patch))
                    _darken_patch(patch)


def _darken_patch(patch: Any) -> None:
    face, edge = patch.get_facecolor(), patch.get_edgecolor()
    patch.set_facecolor(dark_colour(face))
    patch.set_edgecolor(dark_colour(edge))


def _darken_ticks(axis: Any) -> None:
    for which in ("major", "minor"):
        settings = axis.get_tick_params(which=which)
        names = {"color", "labelcolor", "grid_color"} & settings.keys()
        axis.set_tick_params(which=which, **{name: dark_colour(settings[name]) for name in names})
