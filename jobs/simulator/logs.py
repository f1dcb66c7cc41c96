"""The log of one of a simulator's streams, kept short: the lines a terminal would finally show, runs collapsed."""

from pathlib import Path


class Log:
    """A stream's log on disk.

    Runs of equal lines are collapsed: the line once, then how often it came. That is done before the log is cut,
    so that a warning printed a million times does not push out the error after it. Of what is left only the first
    lines are kept, with a note where it was cut: half a line could hold half a secret, which nobody would know.
    """

    def __init__(self, path: Path, *, most_bytes: int) -> None:
        self.file = path.open("wb")
        self.room = most_bytes
        self.most_bytes = most_bytes
        self.last: bytes | None = None
        self.repeats = 0

    def write(self, line: str) -> None:
        """Take the next line."""
        data = f"{line}\n".encode()
        if data == self.last:
            self.repeats += 1
            return
        self._end_run()
        self.last = data
        self._put(data)

    def close(self) -> None:
        """Finish the file."""
        self._end_run()
        self.file.close()

    def _end_run(self) -> None:
        """Write how often the last line came; where that would be no shorter, write it as often."""
        if self.last and self.repeats:
            note = f"[the line above came {self.repeats + 1} times in a row]\n".encode()
            self._put(min(note, self.last * min(self.repeats, len(note)), key=len))
        self.repeats = 0

    def _put(self, data: bytes) -> None:
        if len(data) <= self.room:
            self.file.write(data)
            self.room -= len(data)
        elif self.room >= 0:
            self.file.write(f"[cut after {self.most_bytes} bytes]\n".encode())
            self.room = -1
