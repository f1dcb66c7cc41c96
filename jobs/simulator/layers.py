"""The layers of the sandbox, and the protections that a deployment requires.

A layer's name is what the launcher reports and a run records. More than one layer can give a protection.
"""

from collections.abc import Collection, Mapping
from typing import Literal

# `required` needs every protection; `auto` runs with what the machine offers, above a minimum.
Mode = Literal["required", "auto"]

PROTECTIONS: Mapping[str, tuple[str, ...]] = {
    "file system view": ("bubblewrap", "landlock"),
    "own identity": ("own_uid", "user_namespace"),
    "network namespace": ("network_namespace",),
    "seccomp": ("seccomp",),
    "resource limits": ("rlimits",),
}
FLOOR: Mapping[str, tuple[str, ...]] = {
    "seccomp": PROTECTIONS["seccomp"],
    "own identity or Landlock": (*PROTECTIONS["own identity"], "landlock"),
    "resource limits": PROTECTIONS["resource limits"],
}
DEMANDED: Mapping[Mode, Mapping[str, tuple[str, ...]]] = {"required": PROTECTIONS, "auto": FLOOR}


def missing(layers: Collection[str]) -> list[str]:
    """Return the protections that none of these layers gives."""
    return [name for name, sources in PROTECTIONS.items() if not set(sources) & set(layers)]
