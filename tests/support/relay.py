"""A wire that a test can cut: a TCP relay in front of a gateway."""

import contextlib
import selectors
import socket
import threading
import time


class Relay:
    def __init__(self, gateway, keeps=False):
        self.host, self.port = "127.0.0.1", None
        self.to = (gateway.host, gateway.port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.wires = []
        self.accepted = 0
        self.cut_word, self.cuts_left = b"", 0
        self.budgets = []
        self.n_spent = 0
        self.asked = bytearray() if keeps else None  # all that clients have sent
        self.flows = threading.Event()
        self.flows.set()
        self.delay_s = 0
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.to)
                with self.lock:
                    self.accepted += 1
                    self.wires.append((near, far))
                threading.Thread(target=self._carry, args=(near, far), daemon=True).start()

    def _carry(self, near, far):
        other = {near: far, far: near}
        with self.lock:
            left = self.budgets.pop() if self.budgets else None
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
