"""The command-line client as a user runs it: with pipes, or on a terminal of its own."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pyte

from gateway import BINARY, WAIT_S


def own_terminal():
    """Stdin is the terminal of this session: Ctrl-C and Ctrl-Z are signals then."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Command:
    """One run of holdfast, whose output is read as it arrives.  terminal: all three are one pty.  within: words of a
    program that runs it, such as a shell; without one nobody could continue it on that terminal."""

    def __init__(self, *arguments, environ, terminal=False, stdin=None, within=()):
        self.seen = {"out": b"", "err": b""}
        if terminal:
            master, slave = pty.openpty()
            self.keyboard = master
            self.ends = {master: "out"}
            streams = {"stdin": slave, "stdout": slave, "stderr": slave}
        else:
            (out, out_end), (err, err_end) = os.pipe(), os.pipe()
            self.ends = {out: "out", err: "err"}
            streams = {"stdin": subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                       "stdout": out_end, "stderr": err_end}
        self.process = subprocess.Popen([*within, BINARY, *arguments], env=environ, start_new_session=True,
                                        preexec_fn=own_terminal if terminal else None, **streams)
        for end in {streams["stdout"], streams["stderr"]}:
            os.close(end)
        if stdin is not None:
            self.process.stdin.write(stdin.encode())
            self.process.stdin.close()

    def _read(self, deadline):
        """Takes available output; False at the end of all streams."""
        ready, _, _ = select.select(list(self.ends), [], [], max(0, deadline - time.monotonic()))
        assert ready or time.monotonic() < deadline, f"nothing more came: {self.seen} {self.lines()}"
        for end in ready:
            data = b""
            with contextlib.suppress(OSError):  # EIO: the terminal's other side is gone
                data = os.read(end, 65536)
            self.seen[self.ends[end]] += data
            if not data:
                os.close(end)
                del self.ends[end]
        return bool(self.ends)

    def until(self, text, stream="out", times=1):
        """Waits until it has printed that, so many times."""
        deadline = time.monotonic() + WAIT_S
        while self.seen[stream].count(text.encode()) < times:
            assert self._read(deadline), f"it ended without {text!r}: {self.seen}"

    def lines(self):
        """A plain run has no screen."""
        return []

    def type(self, text):
        os.write(self.keyboard, text.encode())

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def end(self):
        """(exit status, stdout, stderr), all of it."""
        deadline = time.monotonic() + WAIT_S
        while self.ends and self._read(deadline):
            pass
        status = self.process.wait(WAIT_S)
        return status, self.seen["out"].decode(), self.seen["err"].decode()


def lines_of(screen):
    gone = ["".join(row[x].data for x in range(screen.columns)) for row in screen.history.top]
    found = [line.rstrip() for line in gone + screen.display]
    while found and not found[-1]:
        found.pop()
    return found


class Screen(Command):
    """One run of holdfast on a terminal, of which a person sees the screen: columns wide, rows high."""

    def __init__(self, *arguments, environ, columns=80, rows=24, within=()):
        super().__init__(*arguments, environ=environ, terminal=True, within=within)
        self.shown = pyte.HistoryScreen(columns, rows, history=10000)
        self.stream = pyte.ByteStream(self.shown)
        self.n_fed = 0
        self.resize(columns, rows)

    def resize(self, columns, rows):
        fcntl.ioctl(self.keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    def lines(self):
        """The screen and all that was scrolled off, to the last line that is not empty."""
        self.stream.feed(self.seen["out"][self.n_fed:])
        self.n_fed = len(self.seen["out"])
        return lines_of(self.shown)

    def until_lines(self, *wanted):
        """Waits until the screen ends so; the cursor is in the last line."""
        deadline = time.monotonic() + WAIT_S
        while self.lines()[-len(wanted):] != list(wanted):
            assert self._read(deadline), f"it ended without {wanted}: {self.lines()}"

    def until_line(self, wanted):
        deadline = time.monotonic() + WAIT_S
        while wanted not in self.lines():
            assert self._read(deadline), f"it ended without {wanted!r}: {self.lines()}"

    def cursor(self):
        return self.shown.cursor.x
