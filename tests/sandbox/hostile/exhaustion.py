"""Simulators that use too many processes, too much memory or too much disk."""

import ctypes
import mmap
import os
import socket
import threading
import time
from pathlib import Path

from tests.sandbox.hostile.printing import attempt, print_line

libc = ctypes.CDLL(None, use_errno=True)


def bomb() -> None:
    """Fork in every process as often as possible. All share 300 forks, so the machine is safe."""
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
    print_line("bombed")
    time.sleep(20)


def hare() -> None:
    """Continue in a new process all the time for ten seconds, so that the process table is always outdated."""
    until = time.monotonic() + 10
    if os.fork() == 0:
        os.setsid()
        print_line("running")
        while time.monotonic() < until:
            if os.fork() != 0:
                os._exit(0)
        print_line("escaped")
    time.sleep(20)


def daemon(marker: str) -> None:
    """Start a process in another session, then exit with success."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            print_line("daemon")
            time.sleep(1)
            Path(marker).write_text("alive")
            time.sleep(60)
        os._exit(0)
    os.wait()
    time.sleep(0.3)


def lasting_daemon() -> None:
    """Start a process in another session and keep running."""
    daemon("marker.txt")
    time.sleep(60)


def memory() -> None:
    hoard = []
    try:
        while True:
            hoard.append(bytearray(32 << 20))
    except MemoryError:
        print_line("refused at", len(hoard) * 32)


def big_file() -> None:
    with Path("big").open("wb") as big:
        while True:
            big.write(bytes(1 << 20))
            big.flush()


def many_files() -> None:
    print_line("filling")
    for number in range(1_000_000):
        Path(f"{number:07}").touch()
    time.sleep(60)


def deep_tree() -> None:
    for _ in range(3000):
        Path("d" * 100).mkdir()
        os.chdir("d" * 100)
    Path("bottom").touch(mode=0)
    Path("closed").mkdir(mode=0)


def hoard(processes: str, megabytes: str) -> None:
    """Use memory in many processes, each below its own limit."""
    for _ in range(int(processes)):
        if os.fork() == 0:
            block = bytearray(os.urandom(1024)) * (int(megabytes) << 10)
            print_line("holding", len(block) >> 20)
            time.sleep(30)
            os._exit(0)
    time.sleep(30)


def headless_hoard(processes: str, megabytes: str) -> None:
    """Use memory in processes whose first thread has ended, so that their own files show none."""

    def hold() -> None:
        time.sleep(0.3)
        block = bytearray(os.urandom(1024)) * (int(megabytes) << 10)
        print_line("holding", len(block) >> 20)
        time.sleep(30)
        os._exit(0)

    for _ in range(int(processes)):
        if os.fork() == 0:
            threading.Thread(target=hold).start()
            libc.syscall(60 if os.uname().machine == "x86_64" else 93, 0)
    time.sleep(30)


def share(processes: str, megabytes: str) -> None:
    """Share the same memory between many processes."""
    block = bytearray(os.urandom(1024)) * (int(megabytes) << 10)
    for _ in range(int(processes)):
        if os.fork() == 0:
            print_line("seeing", sum(block[::4096]) >= 0)
            time.sleep(2)
            os._exit(0)
    time.sleep(2.5)


def gift(pipe: int) -> None:
    """Give a page to a pipe, which keeps the whole huge page allocated after the process frees it."""
    block = ctypes.create_string_buffer(4096)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(block), len(block))
    if libc.vmsplice(pipe, vector, 1, 0) < 0:
        raise OSError(ctypes.get_errno(), "vmsplice")


def hide() -> None:
    """Use memory that does not count for any process."""
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
    print_line("filled")
    time.sleep(30)
