"""Simulators that try to leave the sandbox."""

import ctypes
import fcntl
import mmap
import os
import resource
import signal
import socket
import stat
from pathlib import Path

from tests.sandbox.hostile.printing import attempt, print_line

libc = ctypes.CDLL(None, use_errno=True)


def writes(*targets: str) -> None:
    for target in targets:
        attempt(target, lambda target=target: Path(target).write_text("mine"))
    Path("inside.txt").write_text("allowed")


def looks(worker: str, secret: str) -> None:
    attempt("environ", lambda: Path("/proc", worker, "environ").read_bytes())
    attempt("memory", Path("/proc", worker, "mem").open)
    attempt("init", lambda: Path("/proc/1/environ").read_bytes() and "read")
    attempt("secret", lambda: Path(secret).read_text())
    attempt("shadow", lambda: Path("/etc/shadow").read_text())


def connects(port: str) -> None:
    attempt("tcp", lambda: socket.create_connection(("127.0.0.1", int(port)), timeout=5).close())


def sends(port: str) -> None:
    attempt(
        "udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"leak", ("127.0.0.1", int(port)))
    )


def kills(*victims: str) -> None:
    for victim in victims:
        attempt(victim, lambda victim=victim: os.kill(int(victim), signal.SIGKILL))
    # A parent outside the process namespace has no id here; process 1 then keeps the namespace.
    attempt("parent", lambda: os.kill(os.getppid() or 1, signal.SIGKILL))
    print_line("survived")


def gains() -> None:
    attempt("root", lambda: os.setuid(0))
    libc = ctypes.CDLL(None)
    print_line("no_new_privs", libc.prctl(39, 0, 0, 0, 0))


def unix_sockets(stream: str, datagram: str) -> None:
    """Connect to a server through its path with every kind of Unix socket."""

    def connect() -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(stream)
            client.sendall(b"COPY t FROM PROGRAM 'sh'")

    attempt("stream", connect)
    attempt("datagram", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"hello", datagram))
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        attempt("pair", lambda kind=kind: socket.socketpair(socket.AF_UNIX, kind)[0].sendto(b"hello", datagram))
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        with socket.socketpair(socket.AF_UNIX, kind)[0] as pair:
            attempt("connected", lambda pair=pair: pair.connect(stream))
            attempt("redirected", lambda pair=pair: pair.sendto(b"hello", datagram))


def families() -> None:
    """Create a socket of every family."""
    for family in range(46):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
            attempt(f"family {family}", lambda family=family, kind=kind: socket.socket(family, kind).family)


def capabilities() -> None:
    """Print the five sets of capabilities, one number each."""
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, sets)
    effective, permitted, inheritable = (sets[place] | sets[place + 3] << 32 for place in range(3))
    print_line("effective", effective, "permitted", permitted, "inheritable", inheritable)
    print_line("ambient", sum(libc.prctl(47, 1, number, 0, 0) == 1 for number in range(64)))
    print_line("bounding", sum(libc.prctl(23, number, 0, 0, 0) == 1 for number in range(64)))


def calls(*calls: str) -> None:
    """Make system calls, each given as NAME=NUMBER, with zeros as arguments."""
    for call in calls:
        name, number = call.split("=")
        ctypes.set_errno(0)
        result = libc.syscall(int(number), 0, 0, 0, 0, 0, 0)
        print_line(name, "WORKED" if result >= 0 else "refused", ctypes.get_errno())


def namespaces() -> None:
    """Create each namespace with the old and the new call."""
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        child = libc.syscall(56 if os.uname().machine == "x86_64" else 220, flag | signal.SIGCHLD, 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        print_line("clone", hex(flag), "WORKED" if child > 0 else "refused", ctypes.get_errno())
    arguments = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, signal.SIGCHLD)
    print_line("clone3", "WORKED" if libc.syscall(435, arguments, 88) >= 0 else "refused", ctypes.get_errno())


def reaches_out(worker: str, secret: str) -> None:
    """Change another process and a file of the same user, which Landlock does not restrict."""
    pid = int(worker)
    attempt("limits", lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)))
    attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
    attempt("processors", lambda: os.sched_setaffinity(pid, {0}))
    attempt("mode", lambda: Path(secret).chmod(0o777))
    attempt("times", lambda: os.utime(secret, (1, 1)))
    attempt("owner", lambda: os.chown(secret, -1, -1))
    attempt("attribute", lambda: os.setxattr(secret, "user.mark", b"1"))
    watch = libc.inotify_init1(0)
    print_line("watch", "refused" if watch < 0 else "WORKED", ctypes.get_errno())
    resource.setrlimit(resource.RLIMIT_CPU, (5, 5))


def nameless() -> None:
    """Use disk in files without a name."""
    Path("named").write_text("here")
    attempt("unlink", lambda: os.unlink("named"))  # noqa: PTH108 - as the others
    attempt("rename", lambda: Path("named").rename("other"))
    attempt("replace", lambda: Path("named").replace("other"))
    attempt("temporary", lambda: os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600))


def foreign_abi() -> None:
    """Create a socket with a call of 32-bit programs, which have other numbers."""
    code = bytes.fromhex("53 b867010000 bb01000000 b901000000 31d2 cd80 5b c3")
    page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
    page.write(code)
    call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    print_line("socket", call())


def x32() -> None:
    """Create a socket with a call of the x32 ABI, which shares this machine's architecture."""
    print_line("socket", libc.syscall(0x40000000 | 41, 1, 1, 0), ctypes.get_errno())


def inherited() -> None:
    """Look for inherited descriptors."""
    for descriptor in range(64):
        try:
            print_line(descriptor, stat.S_IFMT(os.fstat(descriptor).st_mode) == stat.S_IFSOCK)
        except OSError:
            continue


def terminal() -> None:
    """Type a command into the worker's terminal."""
    for descriptor in range(3):
        for request in (0x5412, 0x541C):
            attempt("type", lambda d=descriptor, r=request: fcntl.ioctl(d, r, b"x"))


def reads(*paths: str) -> None:
    for path in paths:
        attempt(path, lambda path=path: len(Path(path).read_bytes()))


def exits(proxy: str, *ports: str) -> None:
    """Use the proxy, then try to connect to servers on the machine's loopback interface."""
    with socket.create_connection(("127.0.0.1", int(proxy)), timeout=5) as exit_:
        exit_.sendall(b"CONNECT somewhere")
        print_line("exit", exit_.recv(100).decode())
    for port in ports:
        connects(port)
        sends(port)
    attempt("listen", lambda: socket.create_server(("127.0.0.1", 0)).getsockname()[1] and "listening")
