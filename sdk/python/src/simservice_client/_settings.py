"""The address and the key of a client: given, from the environment, or stored by `simctl login`."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx

from simservice_client.errors import NotConfigured

URL_VARIABLE, KEY_VARIABLE = "SIMSERVICE_URL", "SIMSERVICE_API_KEY"


def configuration_file() -> Path:
    """Return the path of the file in which `simctl login` stores the address and the key."""
    if sys.platform == "win32":
        folder = Path(os.environ.get("APPDATA", Path.home()))
    else:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return folder / "simservice" / "credentials.json"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where a client sends its requests, and the key that it sends."""

    base_url: str
    api_key: str

    @classmethod
    def find(cls, *, base_url: str | None, api_key: str | None) -> "Settings":
        """Return the settings. Raises NotConfigured if one is missing or cannot be used."""
        stored = _stored()
        url = base_url or os.environ.get(URL_VARIABLE) or stored.get("url")
        key = api_key or os.environ.get(KEY_VARIABLE) or stored.get("apiKey")
        if not url or not key:
            missing, variable = ("address", URL_VARIABLE) if not url else ("API key", KEY_VARIABLE)
            raise NotConfigured(f"There is no {missing}: pass it, set {variable}, or run `simctl login`.")
        return cls(base_url=_checked_url(url), api_key=_checked_key(key))

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of every request with the key."""
        return {"Authorization": f"Bearer {self.api_key}"}


def _stored() -> dict[str, str]:
    """Return what `simctl login` has stored, nothing if it has not run. Raises NotConfigured if it is damaged."""
    path = configuration_file()
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return {name: str(stored[name]) for name in ("url", "apiKey")}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotConfigured(f"{path} cannot be read ({error}). Run `simctl login` again.") from None


def _checked_url(url: str) -> str:
    """Return an address without a slash at its end. Raises NotConfigured unless it begins with http:// or https://."""
    try:
        parsed = httpx.URL(url.rstrip("/"))
    except httpx.InvalidURL as error:
        raise NotConfigured(f"{url!r} is not an address: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise NotConfigured(f"{url!r} is not an address: it must begin with https:// or http://.")
    return str(parsed)


def _checked_key(key: str) -> str:
    """Return a key that fits into a header. Raises NotConfigured otherwise, without naming it."""
    if not key.isascii() or not key.isprintable() or " " in key.strip():
        raise NotConfigured("The API key contains characters that no key has.")
    return key.strip()
