"""Where a model is reached and with which key: checks of what a config says, none of which ever shows a secret."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from ttc_eval.errors import UserError

_KEY_PARAMETERS = frozenset({"key", "api_key", "api-key", "apikey", "token", "access_token"})
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def api_key(env: str | None, file: str | None) -> str | None:
    """The key in the variable `env` or else in `file`; None when neither is named. Raises `UserError`, which never shows a key."""
    if env is not None:
        source, key = f"variable {env}", os.environ.get(env, "")
        advice = f"set {env}"
    elif file is not None:
        source, advice = f"file {file}", "put the key there, and nothing else"
        try:
            key = Path(file).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"api_key_file: cannot read {file} ({type(error).__name__}); {advice}") from None
    else:
        return None
    key = key.strip()
    if not key:
        raise UserError(f"no API key: the {source} is empty or not set; {advice}")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UserError(f"the {source} holds no usable API key: white space or characters outside ASCII in it")
    return key


def with_extra(body: Mapping[str, Any], extra: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """`body` with the fields of `extra` added, inside of objects as well. Raises `UserError` for one that `body` holds already."""
    merged = dict(body)
    for name, value in extra.items():
        if name not in body:
            merged[name] = value
        elif isinstance(body[name], Mapping) and isinstance(value, Mapping):
            merged[name] = with_extra(body[name], value, f"{where}{name}.")
        else:
            raise UserError(f"model.extra_body.{where}{name}: this field is written here already; set it by its own key, or by model.forms")
    return merged


def check_headers(headers: Mapping[str, str], name: str) -> None:
    """Raise `UserError` for a header that could not be sent as it stands; `name` is the model's."""
    for header, value in headers.items():
        if not (_HEADER_NAME.fullmatch(str(header)) and str(value).isprintable() and str(value).isascii()):
            raise UserError(f"model.headers of {name!r}: a name or value holds characters that no header may; the values are not shown")


def joined(base_url: str, path: str) -> str:
    """The base URL with `path`, which may hold a query, before its own query."""
    url, added = urlsplit(base_url), urlsplit(path)
    query = "&".join(part for part in (url.query, added.query) if part)
    return urlunsplit(url._replace(path=url.path.rstrip("/") + added.path, query=query))


def checked_url(base_url: str, name: str) -> SplitResult:
    """The parts of a base URL. Raises `UserError` when it is none, or holds a key or a password."""
    try:
        url = urlsplit(base_url)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port >= 0)
    except ValueError:
        usable = False
    if not usable or "@" in base_url:
        # The text is not shown: it may hold a password.
        raise UserError(f"model.base_url of {name!r}: give http(s)://host[:port]/path, with no user or password in it")
    if any(parameter.lower() in _KEY_PARAMETERS for parameter, _ in parse_qsl(url.query)):
        raise UserError(f"model.base_url of {name!r} holds a key in its query; name it in api_key_env, or send it by model.headers")
    return url
