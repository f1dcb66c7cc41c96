"""Readers of the settings in the environment. They collect all problems, so that a start reports them together."""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import environ
from redis.connection import parse_url

from simservice.network import public_names

Value = TypeVar("Value")
HELP = (
    ".env.example lists all settings. To try the service without any, run `make run`. To run a command against a "
    "stack that `manage.py local --data DIR` started, first load its settings: set -a; . DIR/stack.env; set +a "
    "(`make run` uses .local as DIR)."
)
MAX_PORT = 65_535
# Names of containers can contain an underscore.
HOST_WITH_PORT = re.compile(r"(\[[0-9a-f:.]+\]|[0-9a-z._-]+):([1-9][0-9]{0,4})")


def stop(problems: Sequence[str]) -> NoReturn:
    """List the problems of the settings, and end the process with status 2."""
    count = f"{len(problems)} problems" if len(problems) > 1 else "a problem"
    lines = "".join(f"\n- {problem}" for problem in problems)
    sys.stderr.write(f"The settings have {count}:{lines}\n{HELP}\n")
    raise SystemExit(2)


# With a leading dot, also all hosts below it; an IPv6 address has brackets.
ALLOWED_HOST = re.compile(r"\*|\.?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\]")


class Environment:
    """Reads settings. After a problem, the value is the default or empty, and `check` stops the process."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def text(self, name: str, *, default: str = "") -> str:
        """Return a string, or the default if it is missing or empty."""
        # django-environ would replace a value such as `$ecret` with that of another variable.
        return os.environ.get(name) or default

    def required(self, name: str, purpose: str) -> str:
        """Return a text that has no default."""
        value = self.text(name)
        self.require(value, f"{name} is not set. It is {purpose}.")
        return value

    def one_of(self, name: str, *values: str) -> str:
        """Return one of several values, by default the first."""
        value = self.text(name, default=values[0])
        self.require(value in values, f"{name} is {value!r}; it must be one of: {', '.join(values)}.")
        return value

    def matching(self, name: str, pattern: str, description: str, *, default: str) -> str:
        """Return a text that matches a regular expression."""
        value = self.text(name, default=default)
        self.require(re.fullmatch(pattern, value), f"{name} is {value!r}; it must be {description}.")
        return value

    def names(self, name: str, *, default: Sequence[str] = ()) -> list[str]:
        """Return a list, comma-separated in the environment, with or without spaces. It can be empty there."""
        value = os.environ.get(name)
        return list(default) if value is None else [entry.strip() for entry in value.split(",") if entry.strip()]

    def allowed_hosts(self, name: str, *, default: Sequence[str]) -> list[str]:
        """Return a list of host names or addresses for which the service responds."""
        kind = "a host name or address alone, such as sim.example.org, .example.org or [::1]"
        return self._all(name, self.names(name, default=default), ALLOWED_HOST.fullmatch, kind)

    def host_names(self, name: str, *, default: Sequence[str]) -> list[str]:
        """Return a list of host names of the public internet."""
        kind = "a public host name such as us.battle.net, without scheme, port, wildcard or spaces"
        return self._all(name, self.names(name, default=default), public_names.is_public, kind)

    def hosts_with_ports(self, name: str) -> list[str]:
        """Return a list of hosts in lower case, each with a port."""
        kind = "a host in lower case with a port, such as localhost:8443"
        return self._all(name, self.names(name), _is_host_with_port, kind)

    def origins(self, name: str) -> list[str]:
        """Return a list of origins: each a scheme and a host, which can begin with `*.`."""
        return self._all(name, self.names(name), _is_origin, "an origin such as https://sim.example.org")

    def links(self, name: str) -> list[tuple[str, str]]:
        """Return labels with web addresses, each entry as `Terms=https://sim.example.org/terms`."""
        kind = "a label and a web address, such as Terms=https://sim.example.org/terms"
        entries = self._all(name, self.names(name), _is_link, kind)
        return [
            (label.strip(), address.strip()) for label, _, address in (entry.partition("=") for entry in entries)
        ]

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a truth value."""
        value = self.text(name, default=str(default)).lower()
        known = dict.fromkeys(("true", "1", "yes", "on"), True) | dict.fromkeys(("false", "0", "no", "off"), False)
        self.require(value in known, f"{name} is {value!r}; it must be true or false.")
        return known.get(value, default)

    def integer(self, name: str, *, default: int, minimum: int = 0, maximum: int = sys.maxsize) -> int:
        """Return a whole number from `minimum` to `maximum`."""
        value = self._converted(name, int, default=default, kind="a whole number")
        self.require(value >= minimum, f"{name} is {value}; it must be at least {minimum}.")
        self.require(value <= maximum, f"{name} is {value}; it must be at most {maximum}.")
        return value

    def number(self, name: str, *, default: float) -> float:
        """Return a number that is not negative."""
        value = self._converted(name, float, default=default, kind="a number")
        self.require(value >= 0, f"{name} is {value}; it must be at least 0.")
        return value

    def file(self, name: str) -> str:
        """Return the path of a file that exists, or an empty text."""
        path = self.text(name)
        self.require(not path or Path(path).is_file(), f"{name} is {path!r}, which is not a file.")
        return path

    def database(self, name: str) -> dict[str, Any]:
        """Return Django's settings of a PostgreSQL database."""
        url = self.required(name, "the URL of the PostgreSQL database")
        example = "postgresql://user:password@host:5432/name"
        found = self._parsed(name, url, environ.Env.db_url_config, example=example)
        if found and not found["ENGINE"].endswith(".postgresql"):
            self.require(None, f"{name} must be the URL of a PostgreSQL database, such as {example}.")
        elif found:
            has_name = found["NAME"] or "service" in found.get("OPTIONS", {})
            self.require(has_name, f"{name} does not name a database. It looks like {example}.")
        return found

    def redis(self, name: str) -> str:
        """Return the URL of a Redis server."""
        url = self.required(name, "the URL of the Redis server")
        self._parsed(name, url, parse_url, example="redis://:password@host:6379/0")
        return url

    def mail(self, name: str) -> dict[str, Any]:
        """Return Django's settings of mail. If there is no URL, no mail is sent or printed."""
        example = "smtp+tls://user:password@host:587"
        url = self.text(name) or "dummymail://"
        return self._parsed(name, url, environ.Env.email_url_config, example=example)

    def web_address(self, name: str) -> str:
        """Return an address that begins with `http://` or `https://`, or an empty text."""
        address = self.text(name)
        is_valid = not address or _is_web_address(address)
        self.require(is_valid, f"{name} must be an address such as https://sim.example.org.")
        return address if is_valid else ""

    def sentry(self, name: str) -> str:
        """Return the address (DSN) of a Sentry project, or an empty text."""
        address = self.text(name)
        is_valid = not address or re.fullmatch(r"https?://[^/@\s]+@[^/@\s]+(/[^\s?#]*)?/\d+", address)
        self.require(
            is_valid, f"{name} must be the DSN of a Sentry project, such as https://key@sentry.example.org/1."
        )
        return address if is_valid else ""

    def require(self, condition: object, problem: str) -> None:
        """Add a problem unless a condition is true."""
        if not condition:
            self.problems.append(problem)

    def check(self) -> None:
        """End the process with status 2 if there are problems."""
        if self.problems:
            stop(self.problems)

    def _all(self, name: str, values: list[str], is_valid: Callable[[str], object], kind: str) -> list[str]:
        for value in values:
            self.require(is_valid(value), f"{name} contains {value!r}, which is not {kind}.")
        return values

    def _converted(self, name: str, convert: Callable[[str], Value], *, default: Value, kind: str) -> Value:
        text = self.text(name, default=str(default))
        try:
            return convert(text)
        except ValueError:
            self.require(None, f"{name} is {text!r}; it must be {kind}.")
            return default

    def _parsed(
        self, name: str, url: str, parse: Callable[[str], Mapping[str, Any]], *, example: str
    ) -> dict[str, Any]:
        """Return the parts of a URL, none if it is empty or invalid. Problems never quote it: it is secret."""
        try:
            return dict(parse(url)) if url else {}
        except (environ.ImproperlyConfigured, ValueError, KeyError):
            self.require(None, f"{name} is not a valid URL. It looks like {example}.")
            return {}


def _is_web_address(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_link(text: str) -> bool:
    label, _, address = text.partition("=")
    return bool(label.strip()) and _is_web_address(address.strip())


def _is_host_with_port(text: str) -> bool:
    found = HOST_WITH_PORT.fullmatch(text)
    return found is not None and int(found[2]) <= MAX_PORT


def _is_origin(address: str) -> bool:
    return _is_web_address(address) and address == "{0.scheme}://{0.netloc}".format(urlsplit(address))
