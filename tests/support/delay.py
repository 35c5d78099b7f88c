"""A line with delay: a TCP relay that hands on bytes, and the end of each side, a while after they came."""

import contextlib
import queue
import socket
import threading
import time


class Delay:
    """host and port of one end; `to` is (host, port) of the other, which looks as if it closed a connection after
    `patience` of silence: that end sets out then (`closed` is set), and travels as long as everything else."""

    def __init__(self, to, seconds, patience=None):
        self.to, self.seconds, self.patience = to, seconds, patience
        self.closed = threading.Event()
        self.ended = 0  # connections that the near side has ended
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.host, self.port = self.listener.getsockname()
        self.accepted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.to)
                self.accepted += 1
                for source, target in ((near, far), (far, near)):
                    under_way = queue.SimpleQueue()
                    threading.Thread(target=self._take, args=(source, source is near, under_way), daemon=True).start()
                    threading.Thread(target=self._give, args=(target, under_way), daemon=True).start()

    def _take(self, source, is_near, under_way):
        data = b"?"
        while data:
            try:
                data = source.recv(65536)
                if self.patience and not is_near:
                    source.settimeout(self.patience)  # from its first answer on
            except OSError as error:  # broken, or out of patience
                data = b""
                if isinstance(error, TimeoutError):
                    self.closed.set()
            under_way.put((time.monotonic() + self.seconds, data))
        if is_near:
            self.ended += 1
        with contextlib.suppress(OSError):
            source.shutdown(socket.SHUT_RD)

    @staticmethod
    def _give(target, under_way):
        with contextlib.suppress(OSError):
            while True:
                due, data = under_way.get()
                time.sleep(max(0, due - time.monotonic()))
                if not data:
                    break
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def close(self):
        self.listener.close()
