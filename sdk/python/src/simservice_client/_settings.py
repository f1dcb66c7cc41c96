"""The address and the key of a client: given, from the environment, or stored by `simctl login`."""

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from simservice_client.errors import NotConfigured

URL_VARIABLE, KEY_VARIABLE = "SIMSERVICE_URL", "SIMSERVICE_API_KEY"
DEFAULT_RESOURCE = "sim"
API_PATH = re.compile(r"/v1(?:/(?P<resource>[^/?#]+))?$")


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
    resource: str
    api_key: str = field(repr=False)

    @classmethod
    def find(cls, *, base_url: str | None, api_key: str | None, resource: str | None = None) -> "Settings":
        """Return the settings. Raises NotConfigured if one is missing or cannot be used.

        A stored key is used only for the address that it was stored with.
        """
        given_url, given_key = base_url or os.environ.get(URL_VARIABLE), api_key or os.environ.get(KEY_VARIABLE)
        stored = {} if given_url and given_key else _stored()
        url = _checked_url(given_url or stored.get("url") or "")
        key = given_key or _key_for(url, stored)
        base, named = _split(url)
        return cls(base_url=base, resource=resource or named or DEFAULT_RESOURCE, api_key=_checked_key(key))

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


def _key_for(url: str, stored: Mapping[str, str]) -> str:
    """Return the stored key. Raises NotConfigured if there is none, or if it is for another service."""
    if not stored:
        raise NotConfigured(f"There is no API key: pass it, set {KEY_VARIABLE}, or run `simctl login`.")
    if _checked_url(stored["url"]) != url:
        raise NotConfigured(
            f"The stored API key is for {stored['url']}. For {url}, set {KEY_VARIABLE}, or run "
            f"`simctl login --url {url}`."
        )
    return stored["apiKey"]


def _checked_url(url: str) -> str:
    """Return an address without a slash at its end. Raises NotConfigured unless it begins with http:// or https://."""
    if not url:
        raise NotConfigured(f"There is no address: pass it, set {URL_VARIABLE}, or run `simctl login`.")
    try:
        parsed = httpx.URL(url.rstrip("/"))
    except httpx.InvalidURL as error:
        raise NotConfigured(f"{url!r} is not an address: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise NotConfigured(f"{url!r} is not an address: it must begin with https:// or http://.")
    return str(parsed).rstrip("/")


def _split(url: str) -> tuple[str, str]:
    """Return the address of a service and the resource, if the address is that of its API: `https://…/v1/sim`."""
    match = API_PATH.search(url)
    return (url[: match.start()], match["resource"] or "") if match else (url, "")


def _checked_key(key: str) -> str:
    """Return a key that fits into a header. Raises NotConfigured otherwise, without naming it."""
    if not key.isascii() or not key.isprintable() or " " in key.strip():
        raise NotConfigured("The API key contains characters that no key has.")
    return key.strip()
