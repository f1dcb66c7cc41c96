"""Layers of the sandbox, and the protections that a deployment requires.

Several layers can provide the same protection.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Literal

# `required` needs every protection; `auto` uses what the machine offers, but at least `MINIMUM`.
Mode = Literal["required", "auto"]


class SandboxUnavailable(Exception):
    """This machine cannot provide a protection that the deployment requires; the message names it."""


class Layer(StrEnum):
    """A layer of the sandbox; the active ones are stored on each run."""

    BUBBLEWRAP = "bubblewrap"  # A private view of the file system, by bubblewrap.
    LANDLOCK = "landlock"  # Access rules for files, TCP ports and signals.
    OWN_UID = "own_uid"  # A user id that no other run has.
    USER_NAMESPACE = "user_namespace"  # A user namespace, where the caller cannot switch users.
    NETWORK_NAMESPACE = "network_namespace"  # A network without interfaces.
    SECCOMP = "seccomp"  # A system call filter.
    RLIMITS = "rlimits"  # Resource limits of each process.
    PROXY = "game_api_exit"  # The caller's proxy, the only way out of the network namespace; not a protection.


PROTECTIONS: Mapping[str, tuple[Layer, ...]] = {
    "file system view": (Layer.BUBBLEWRAP, Layer.LANDLOCK),
    "own identity": (Layer.OWN_UID, Layer.USER_NAMESPACE),
    "network namespace": (Layer.NETWORK_NAMESPACE,),
    "seccomp": (Layer.SECCOMP,),
    "resource limits": (Layer.RLIMITS,),
}
MINIMUM: Mapping[str, tuple[Layer, ...]] = {
    "seccomp": PROTECTIONS["seccomp"],
    "own identity or Landlock": (*PROTECTIONS["own identity"], Layer.LANDLOCK),
    "resource limits": PROTECTIONS["resource limits"],
}
REQUIRED: Mapping[Mode, Mapping[str, tuple[Layer, ...]]] = {"required": PROTECTIONS, "auto": MINIMUM}


def missing(layers: Collection[str]) -> list[str]:
    """Return the protections that none of these layers provides."""
    return [name for name, sources in PROTECTIONS.items() if not set(sources) & set(layers)]
