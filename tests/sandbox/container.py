"""Run a command under a seccomp policy that denies some system calls, like the policies of many containers.

`container.py CALL,CALL… COMMAND…`
"""

import os
import platform
import sys

from sandbox import confine, seccomp

CALLS = {
    "landlock": {"x86_64": 444, "aarch64": 444},
    "unshare": {"x86_64": 272, "aarch64": 97},
    "mount": {"x86_64": 165, "aarch64": 40},
    "clone": {"x86_64": 56, "aarch64": 220},
    "seccomp": {"x86_64": 157, "aarch64": 167},
}
# These are denied only with certain arguments.
CHECKED = ("clone", "seccomp")


def policy(names: list[str]) -> bytes:
    """Return a filter that denies the named calls: `clone` with a namespace, `seccomp` through prctl."""
    machine = platform.machine()
    assembler = seccomp.Assembler()
    assembler.add(seccomp.LOAD, seccomp.NUMBER)
    for name in names:
        assembler.add(seccomp.JUMP_EQUAL, CALLS[name][machine], name if name in CHECKED else "deny")
    assembler.add(seccomp.RETURN, seccomp.ALLOW)
    assembler.label("clone")
    assembler.add(seccomp.LOAD, seccomp.ARGUMENTS)
    assembler.add(seccomp.JUMP_ANY_BIT, seccomp.NEW_NAMESPACES, "deny", "allow")
    # prctl with the operation that installs a filter
    assembler.label("seccomp")
    assembler.add(seccomp.LOAD, seccomp.ARGUMENTS)
    assembler.add(seccomp.JUMP_EQUAL, confine.PR_SET_SECCOMP, "deny", "allow")
    assembler.label("allow")
    assembler.add(seccomp.RETURN, seccomp.ALLOW)
    assembler.label("deny")
    assembler.add(seccomp.RETURN, seccomp.ERRNO | 1)
    return assembler.pack()


if __name__ == "__main__":
    confine.prctl(confine.PR_SET_NO_NEW_PRIVS, 1)
    if not confine.restrict_system_calls(policy(sys.argv[1].split(","))):
        sys.exit("the policy could not be installed")
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - becomes the command
