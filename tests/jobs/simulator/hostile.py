"""Simulators that misbehave, and a few that do not, to be run as `hostile.py BEHAVIOUR [ARGUMENT...]`."""

import ctypes
import fcntl
import mmap
import os
import resource
import signal
import socket
import stat
import sys
import threading
import time
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)


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
    Path("closed").mkdir(mode=0)


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
    attempt("parent", lambda: os.kill(os.getppid(), signal.SIGKILL))
    say("survived")


def gains() -> None:
    attempt("root", lambda: os.setuid(0))
    libc = ctypes.CDLL(None)
    say("no_new_privs", libc.prctl(39, 0, 0, 0, 0))


def unix_sockets(stream: str, datagram: str) -> None:
    """Reach a server through its path, by every kind of socket that has one."""

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
    """Make a socket of every family there is."""
    for family in range(46):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
            attempt(f"family {family}", lambda family=family, kind=kind: socket.socket(family, kind).family)


def capabilities() -> None:
    """Print the five sets of capabilities, one number each."""
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, sets)
    effective, permitted, inheritable = (sets[place] | sets[place + 3] << 32 for place in range(3))
    say("effective", effective, "permitted", permitted, "inheritable", inheritable)
    say("ambient", sum(libc.prctl(47, 1, number, 0, 0) == 1 for number in range(64)))
    say("bounding", sum(libc.prctl(23, number, 0, 0, 0) == 1 for number in range(64)))


def calls(*calls: str) -> None:
    """Make system calls, each given as NAME=NUMBER, with arguments that mean little."""
    for call in calls:
        name, number = call.split("=")
        ctypes.set_errno(0)
        result = libc.syscall(int(number), 0, 0, 0, 0, 0, 0)
        say(name, "WORKED" if result >= 0 else "refused", ctypes.get_errno())


def namespaces() -> None:
    """Ask for each namespace by the old call and the new one."""
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        child = libc.syscall(56 if os.uname().machine == "x86_64" else 220, flag | signal.SIGCHLD, 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        say("clone", hex(flag), "WORKED" if child > 0 else "refused", ctypes.get_errno())
    arguments = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, signal.SIGCHLD)
    say("clone3", "WORKED" if libc.syscall(435, arguments, 88) >= 0 else "refused", ctypes.get_errno())


def reaches_out(worker: str, secret: str) -> None:
    """Change what belongs to another process or file of the same user, which Landlock does not judge."""
    pid = int(worker)
    attempt("limits", lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)))
    attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
    attempt("processors", lambda: os.sched_setaffinity(pid, {0}))
    attempt("mode", lambda: Path(secret).chmod(0o777))
    attempt("times", lambda: os.utime(secret, (1, 1)))
    attempt("owner", lambda: os.chown(secret, -1, -1))
    attempt("attribute", lambda: os.setxattr(secret, "user.mark", b"1"))
    watch = libc.inotify_init1(0)
    say("watch", "refused" if watch < 0 else "WORKED", ctypes.get_errno())
    resource.setrlimit(resource.RLIMIT_CPU, (5, 5))


def nameless() -> None:
    """Take disk in files that have no name, or none any more."""
    Path("named").write_text("here")
    attempt("unlink", lambda: os.unlink("named"))  # noqa: PTH108 - as the others
    attempt("rename", lambda: Path("named").rename("other"))
    attempt("replace", lambda: Path("named").replace("other"))
    attempt("temporary", lambda: os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600))


def foreign_abi() -> None:
    """Make a socket by the calls of 32-bit programs, which have other numbers."""
    code = bytes.fromhex("53 b867010000 bb01000000 b901000000 31d2 cd80 5b c3")
    page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
    page.write(code)
    call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    say("socket", call())


def x32() -> None:
    """Make a socket by the calls of the x32 ABI, which shares this machine's architecture."""
    say("socket", libc.syscall(0x40000000 | 41, 1, 1, 0), ctypes.get_errno())


def inherited() -> None:
    """Look for descriptors that somebody forgot."""
    for descriptor in range(64):
        try:
            say(descriptor, stat.S_IFMT(os.fstat(descriptor).st_mode) == stat.S_IFSOCK)
        except OSError:
            continue


def terminal() -> None:
    """Type a command into the terminal that the worker was started from."""
    for descriptor in range(3):
        for request in (0x5412, 0x541C):
            attempt("type", lambda d=descriptor, r=request: fcntl.ioctl(d, r, b"x"))


def reads(*paths: str) -> None:
    for path in paths:
        attempt(path, lambda path=path: len(Path(path).read_bytes()))


def hoard(processes: str, megabytes: str) -> None:
    """Take memory in many processes, each of which stays below its own limit."""
    for _ in range(int(processes)):
        if os.fork() == 0:
            block = bytearray(os.urandom(1024)) * (int(megabytes) << 10)
            say("holding", len(block) >> 20)
            time.sleep(30)
            os._exit(0)
    time.sleep(30)


def headless_hoard(processes: str, megabytes: str) -> None:
    """Take memory in processes whose first thread has ended, so that they show none as their own."""

    def hold() -> None:
        time.sleep(0.3)
        block = bytearray(os.urandom(1024)) * (int(megabytes) << 10)
        say("holding", len(block) >> 20)
        time.sleep(30)
        os._exit(0)

    for _ in range(int(processes)):
        if os.fork() == 0:
            threading.Thread(target=hold).start()
            libc.syscall(60 if os.uname().machine == "x86_64" else 93, 0)
    time.sleep(30)


def fast_hoard(processes: str) -> None:
    """Take memory as fast as the machine gives it."""
    for _ in range(int(processes)):
        if os.fork() == 0:
            blocks = []
            while True:
                blocks.append(bytearray(b"x") * (16 << 20))
    time.sleep(30)


def share(processes: str, megabytes: str) -> None:
    """Let many processes see the same memory, which therefore counts once."""
    block = bytearray(os.urandom(1024)) * (int(megabytes) << 10)
    for _ in range(int(processes)):
        if os.fork() == 0:
            say("seeing", sum(block[::4096]) >= 0)
            time.sleep(2)
            os._exit(0)
    time.sleep(2.5)


def gift(pipe: int) -> None:
    """Leave a page to a pipe, which keeps the huge page around it when the process lets go of it."""
    block = ctypes.create_string_buffer(4096)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(block), len(block))
    if libc.vmsplice(pipe, vector, 1, 0) < 0:
        raise OSError(ctypes.get_errno(), "vmsplice")


def hide() -> None:
    """Take memory that no process shows as its own."""
    attempt("shared", lambda: len(mmap.mmap(-1, 64 << 20)))
    attempt("zero", lambda: mmap.mmap(os.open("/dev/zero", os.O_RDONLY), 1 << 20, prot=mmap.PROT_READ)[:9])
    attempt("gift", lambda: gift(os.pipe()[1]))
    with socket.socketpair()[0] as pair:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            attempt("buffer", lambda option=option: pair.setsockopt(socket.SOL_SOCKET, option, 1 << 30))
    attempt("shm", lambda: Path("/dev/shm/hidden").write_bytes(bytes(1 << 20)))  # noqa: S108


def fill_directory(megabytes: str) -> None:
    """Fill the working directory, which may be in memory."""
    for number in range(int(megabytes)):
        Path(f"block-{number}").write_bytes(bytes(1 << 20))
    say("filled")
    time.sleep(30)


def exits(proxy: str, *ports: str) -> None:
    """Use the one exit, then look for others: servers of the machine on loopback."""
    with socket.create_connection(("127.0.0.1", int(proxy)), timeout=5) as exit_:
        exit_.sendall(b"CONNECT somewhere")
        say("exit", exit_.recv(100).decode())
    for port in ports:
        connects(port)
        sends(port)
    attempt("listen", lambda: socket.create_server(("127.0.0.1", 0)).getsockname()[1] and "listening")


def leaves(secret: str) -> None:
    """Leaves all but a report under the names of reports."""
    attempt("link", lambda: Path("link.json").symlink_to(secret))
    attempt("fifo", lambda: os.mkfifo("fifo.json"))
    attempt("hard", lambda: os.link(secret, "hard.json"))
    Path("directory.json").mkdir()
    Path("good.json").write_text("{}")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
