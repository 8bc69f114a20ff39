"""Where the shipped configs, data and notebooks are: beside the package in a checkout, inside it when installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def share() -> Path:
    """The folder that holds `configs`, `data` and `notebooks`."""
    installed = _PACKAGE / "_share"
    return installed if installed.is_dir() else _PACKAGE.parent


def resource_path(path: str | Path) -> Path:
    """`path` as it stands when it exists or is absolute, else below the shipped files."""
    given = Path(path).expanduser()
    if given.is_absolute() or given.exists():
        return given
    shipped = share() / given
    return shipped if shipped.exists() else given
