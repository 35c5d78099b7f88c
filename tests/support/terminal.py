"""The command-line client as a user runs it: with pipes, or on a terminal of its own."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import time

from gateway import BINARY, WAIT_S


class Command:
    """One run of holdfast, whose output is read as it arrives.  terminal: all three are one pty."""

    def __init__(self, *arguments, environ, terminal=False, stdin=None):
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
        self.process = subprocess.Popen([BINARY, *arguments], env=environ, start_new_session=True, **streams)
        for end in {streams["stdout"], streams["stderr"]}:
            os.close(end)
        if stdin is not None:
            self.process.stdin.write(stdin.encode())
            self.process.stdin.close()

    def _read(self, deadline):
        """Takes available output; False at the end of all streams."""
        ready, _, _ = select.select(list(self.ends), [], [], max(0, deadline - time.monotonic()))
        assert ready or time.monotonic() < deadline, f"nothing more came: {self.seen}"
        for end in ready:
            data = b""
            with contextlib.suppress(OSError):  # EIO: the terminal's other side is gone
                data = os.read(end, 65536)
            self.seen[self.ends[end]] += data
            if not data:
                os.close(end)
                del self.ends[end]
        return bool(self.ends)

    def until(self, text, stream="out"):
        """Waits until it has printed that."""
        deadline = time.monotonic() + WAIT_S
        while text.encode() not in self.seen[stream]:
            assert self._read(deadline), f"it ended without {text!r}: {self.seen}"

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
