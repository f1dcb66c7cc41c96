"""Simulators that misbehave, and a few that do not, to be run as `hostile.py BEHAVIOUR [ARGUMENT...]`."""

import ctypes
import os
import resource
import signal
import socket
import sys
import time
from pathlib import Path


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def attempt(what: str, action: object) -> None:
    """Print whether a forbidden thing worked."""
    assert callable(action)
    try:
        found = action()
    except OSError as error:
        say(what, "refused", error.errno)
    else:
        say(what, "WORKED", found)


def environment() -> None:
    for name, value in sorted(os.environ.items()):
        say(f"{name}={value}")
    say("cwd", Path.cwd())
    say("uid", os.getuid())
    say("groups", *os.getgroups())
    say(
        "limits", *(resource.getrlimit(getattr(resource, f"RLIMIT_{n}"))[0] for n in ("CPU", "AS", "FSIZE", "CORE"))
    )


def status(code: str) -> None:
    sys.exit(int(code))


def die(number: str) -> None:
    os.kill(os.getpid(), int(number))


def progress() -> None:
    sys.stdout.write("version\n")
    for done in range(3):
        sys.stdout.write(f"{done}/3\r")
        sys.stdout.flush()
    sys.stdout.write("3/3\nlast words without an end")
    sys.stderr.write("a warning\n")


def noise() -> None:
    sys.stdout.buffer.write(b"\xff\xfe caf\xc3\xa9\n" + b"x" * 100_000 + b"\nafter\n")


def flood() -> None:
    block = b"0123456789abcde\n" * 65536
    for _ in range(1024):
        os.write(1, block)


def sleep() -> None:
    say("running")
    time.sleep(60)


def deaf() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU):
        signal.signal(number, signal.SIG_IGN)
    sleep()


def polite() -> None:
    try:
        sleep()
    except KeyboardInterrupt:
        Path("report.json").write_text("{}")
        say("interrupted")
        sys.exit(0)


def spin() -> None:
    while True:
        pass


def bomb() -> None:
    """Every process forks as often as it can. All draw on one stock of forks, so none harms the machine."""
    stock, fill = os.pipe()
    os.write(fill, bytes(300))
    os.close(fill)
    refused = 0
    while refused < 20 and os.read(stock, 1):
        try:
            os.fork()
        except OSError:
            refused += 1
            time.sleep(0.005)
    say("bombed")
    time.sleep(20)


def hare() -> None:
    """Always moving on to a new process, so that a look at the process table comes too late; for ten seconds."""
    until = time.monotonic() + 10
    if os.fork() == 0:
        os.setsid()
        say("running")
        while time.monotonic() < until:
            if os.fork() != 0:
                os._exit(0)
        say("escaped")
    time.sleep(20)


def daemon(marker: str) -> None:
    """Leaves a process behind that left the session, then ends well."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            say("daemon")
            time.sleep(1)
            Path(marker).write_text("alive")
            time.sleep(60)
        os._exit(0)
    os.wait()
    time.sleep(0.3)


def lasting_daemon() -> None:
    """As above, and stays itself."""
    daemon("marker.txt")
    time.sleep(60)


def shows(name: str) -> None:
    say(Path(name).read_text())


def memory() -> None:
    hoard = []
    try:
        while True:
            hoard.append(bytearray(32 << 20))
    except MemoryError:
        say("refused at", len(hoard) * 32)


def writes(*targets: str) -> None:
    for target in targets:
        attempt(target, lambda target=target: Path(target).write_text("mine"))
    Path("inside.txt").write_text("allowed")


def big_file() -> None:
    with Path("big").open("wb") as big:
        while True:
            big.write(bytes(1 << 20))
            big.flush()


def many_files() -> None:
    say("filling")
    for number in range(1_000_000):
        Path(f"{number:07}").touch()
    time.sleep(60)


def deep_tree() -> None:
    for _ in range(3000):
        Path("d" * 100).mkdir()
        os.chdir("d" * 100)
    Path("bottom").touch(mode=0)
    Path().chmod(0)


def looks(worker: str, secret: str) -> None:
    attempt("environ", lambda: Path("/proc", worker, "environ").read_bytes())
    attempt("memory", Path("/proc", worker, "mem").open)
    attempt("init", lambda: Path("/proc/1/environ").read_bytes() and "read")
    attempt("secret", lambda: Path(secret).read_text())
    attempt("shadow", lambda: Path("/etc/shadow").read_text())


def connects(port: str) -> None:
    attempt("tcp", lambda: socket.create_connection(("127.0.0.1", int(port)), timeout=5).close())


def sends(port: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        attempt("udp", lambda: sender.sendto(b"leak", ("127.0.0.1", int(port))))


def kills(*victims: str) -> None:
    for victim in victims:
        attempt(victim, lambda victim=victim: os.kill(int(victim), signal.SIGKILL))
    attempt("parent", lambda: os.kill(os.getppid(), signal.SIGKILL))
    say("survived")


def gains() -> None:
    attempt("root", lambda: os.setuid(0))
    libc = ctypes.CDLL(None)
    say("no_new_privs", libc.prctl(39, 0, 0, 0, 0))


def leaves(secret: str) -> None:
    """Leaves all but a report under the names of reports."""
    attempt("link", lambda: Path("link.json").symlink_to(secret))
    attempt("fifo", lambda: os.mkfifo("fifo.json"))
    attempt("hard", lambda: os.link(secret, "hard.json"))
    Path("directory.json").mkdir()
    Path("good.json").write_text("{}")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
