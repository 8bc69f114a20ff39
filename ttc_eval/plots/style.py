"""How every figure looks, and how it becomes a file. Nothing here touches pyplot or the global rcParams."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Okabe and Ito's colours, safe for colour-blind readers, in an order in which neighbours also differ in lightness. Markers and
# dashes repeat with other periods than the colours, so that series stay apart in greyscale, and 63 of them before one returns.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000")

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")

DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same figure on every machine
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.6,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "figure.dpi": 150,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,  # fonts are embedded, and text in the PDF can be selected and searched
    "ps.fonttype": 42,
    "svg.fonttype": "path",  # an SVG that looks the same where the font is missing
    "svg.hashsalt": "ttc_eval",  # the same figure gives the same bytes
}

LABEL_SIZE = 7.0

CAPTION_SIZE = 6.5

EDGE: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.5}

WATERMARK: dict[str, Any] = {
    "fontsize": 22,
    "color": "#000000",
    "alpha": 0.09,
    "rotation": 18,
    "ha": "center",
    "va": "center",
    "zorder": 1.2,  # above the bands, below the lines
    "weight": "bold",
    "in_layout": False,
}


def plain_text(value: object, width: int = 34) -> str:
    """Any value as plain text: no mathtext from a dollar sign, no label so long that it eats the panel."""
    text = " ".join(str(value).split())
    if len(text) > width:
        text = f"{text[: width - 12]}…{text[-11:]}"
    return text.replace("$", r"\$")


def compact(number: float) -> str:
    """16000 → 16k and 16384 → 16,384: short only where nothing is lost."""
    if number >= 1_000_000 and number % 100_000 == 0:
        return f"{number / 1_000_000:g}M"
    if number >= 1_000 and number % 100 == 0:
        return f"{number / 1_000:g}k"
    return f"{number:,.0f}"


def cost_text(value: float) -> str:
    """A tick of the cost axis: 20000 → 20k, 0.00005 as it is and not 5e-05."""
    if value >= 10 or value == round(value):
        return compact(round(value))
    return f"{value:.6f}".rstrip("0") if value >= 1e-6 else f"{value:g}"


def dark(colour: str) -> tuple[float, float, float]:
    """The colour, dark enough to read as text on white."""
    hue, light, saturation = colorsys.rgb_to_hls(*to_rgb(colour))
    return colorsys.hls_to_rgb(hue, min(light, 0.3), saturation)


def save(figure: Figure, path_stem: str | Path, formats: Sequence[str] = ("png", "pdf", "svg")) -> list[Path]:
    """Write the figure as `<path_stem>.<format>` for each format, and return the paths. Parent folders are made.

    Fonts are embedded, and files carry no date, so the same figure gives the same bytes.
    """
    stem = Path(path_stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    undated: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in formats]
    with mpl.rc_context(STYLE):
        for path, suffix in zip(paths, formats, strict=True):
            figure.savefig(path, format=suffix, metadata=undated.get(suffix))
    return paths
