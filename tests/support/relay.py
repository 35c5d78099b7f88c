"""A wire that a test can cut: a TCP relay in front of a gateway, or of PostgreSQL."""

import contextlib
import selectors
import socket
import threading
import time


class Relay:
    def __init__(self, to, keeps=False, port=0):
        """to: a gateway, or the path of a socket; may be another one later, for the wires that come then."""
        self.host, self.port = "127.0.0.1", None
        self.to = to if isinstance(to, str) else (to.host, to.port)
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        self.wires = []
        self.accepted = 0
        self.cut_word, self.cuts_left = b"", 0
        self.loss = None  # what is asked, and the answer that is lost
        self.lost = threading.Event()
        self.budgets = []
        self.n_spent = 0
        self.asked = bytearray() if keeps else None  # all that clients have sent
        self.flows = threading.Event()
        self.flows.set()
        self.delay_s = 0
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _connect(self):
        if not isinstance(self.to, str):
            return socket.create_connection(self.to)
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(self.to)
        except OSError:
            far.close()
            raise
        return far

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                try:
                    far = self._connect()
                except OSError:  # nobody is there, as the other end learns
                    near.close()
                    continue
                with self.lock:
                    self.accepted += 1
                    self.wires.append((near, far))
                threading.Thread(target=self._carry, args=(near, far), daemon=True).start()

    def _carry(self, near, far):
        other = {near: far, far: near}
        with self.lock:
            left = self.budgets.pop() if self.budgets else None
        answer = None  # that this wire loses
        with contextlib.suppress(OSError, ValueError), selectors.DefaultSelector() as selector:
            for end in other:
                selector.register(end, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    data = key.fileobj.recv(65536)
                    if not data:
                        raise OSError
                    if key.fileobj is near and self.asked is not None:
                        self.asked += data
                    answer = self._lost_by(data, key.fileobj is near, answer)
                    self.flows.wait()
                    time.sleep(self.delay_s)
                    other[key.fileobj].sendall(data if left is None else data[:left])
                    if left is not None and len(data) >= left:
                        with self.lock:
                            self.n_spent += 1
                        raise OSError
                    left = left and left - len(data)
                    if key.fileobj is far and self._is_cut_after(data):
                        raise OSError
        for end in other:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _lost_by(self, data, is_asked, answer):
        """The answer that this wire is to lose, if any; raises where something is lost."""
        with self.lock:
            if self.loss and is_asked and self.loss[0] in data:
                answer, self.loss = self.loss[1], None
                lost = answer is None
            else:
                lost = not is_asked and answer is not None and answer in data
        if lost:
            self.lost.set()
            raise OSError
        return answer

    def _is_cut_after(self, data):
        with self.lock:
            if not self.cuts_left or self.cut_word not in data:
                return False
            self.cuts_left -= 1
            return True

    def cut_after(self, word, times):
        """The next connections end right after these bytes reach the client, that many times."""
        with self.lock:
            self.cut_word, self.cuts_left = word, times

    def cut_after_bytes(self, budgets):
        """Each of the next connections ends when it has carried so many bytes, in both directions together."""
        with self.lock:
            self.budgets = list(budgets)

    def lose(self, asked, answer=None):
        """Once: on the wire on which the first of these is sent the second does not come back, and the wire ends.  Without
        a second the first is lost itself."""
        with self.lock:
            self.loss = (asked, answer)
            self.lost.clear()

    def swallow(self, on=True):
        """A black hole: nothing goes on, and nobody is told."""
        self.flows.clear() if on else self.flows.set()

    def cut(self):
        """Ends every connection with a reset."""
        with self.lock:
            for wire in self.wires:
                for end in wire:
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
            self.wires.clear()

    def close(self):
        self.flows.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
