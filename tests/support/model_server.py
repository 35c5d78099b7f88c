"""An HTTP server whose answers a test writes down byte by byte: a model's server, or an agent's.

    server.script = [reply(chunks(text("Hel"), text("lo"), finish("stop"), DONE))]

Each request takes the next reply of script (the last one stays).  A reply is a list of steps: bytes are
sent, CLOSE ends the connection, KEEP waits for its next request, RESET cuts it, an Event is waited for.
Requests are kept unchanged.
"""

import http.server
import json
import socket
import struct
import threading
import time

from gateway import WAIT_S, wait_until

CLOSE, KEEP, RESET = object(), object(), object()
DONE = b"data: [DONE]\n\n"


def data(value, end="\n\n"):
    return f"data: {json.dumps(value, ensure_ascii=False)}{end}".encode()


def delta(**members):
    return data({"id": "x", "object": "chat.completion.chunk",
                 "choices": [{"index": 0, "delta": members, "finish_reason": None}]})


def text(content):
    return delta(content=content)


def call(index, call_id=None, name=None, arguments=None):
    """A piece of a tool call."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments))
                if value is not None}
    piece = {"index": index, "function": function}
    if call_id is not None:
        piece.update(id=call_id, type="function")
    return delta(tool_calls=[piece])


def finish(reason="stop"):
    return data({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})


def usage(prompt, completion):
    return data({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion,
                                          "total_tokens": prompt + completion}})


def head(status=200, content_type="text/event-stream", connection="close", **headers):
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Type: {content_type}",
             f"Connection: {connection}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def reply(*steps, **how):
    """A whole answer; how: see head."""
    return [head(**how), *steps, CLOSE]


def kept(*steps, **how):
    """A whole answer with a length, after which the connection stays open."""
    body = b"".join(steps)
    return [head(connection="keep-alive", Content_Length=len(body), **how) + body, KEEP]


def answer(content):
    return reply(text(content), finish(), DONE)


class Request:
    def __init__(self, handler, body):
        self.method, self.path, self.headers = handler.command, handler.path, handler.headers
        self.body = body
        self.peer = handler.client_address
        self.at = time.monotonic()
        self.left = False  # its client went before the answer was whole

    @property
    def json(self):
        return json.loads(self.body)


class ModelServer:
    """A thread for each connection; close ends it."""

    def __init__(self, host="127.0.0.1", wrap=None, port=0):
        self.script = []
        self.requests = []
        self.lock = threading.Lock()
        self.over = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle(self):
                while outer._serve(self):
                    pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request, client_address):
                pass

        self.server = Server((host, port), Handler)
        if wrap:
            self.server.socket = wrap(self.server.socket)
        self.port = self.server.server_address[1]
        self.url = f"http{'s' if wrap else ''}://{host}:{self.port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05},
                         daemon=True).start()

    def _next(self, request):
        with self.lock:
            self.requests.append(request)
            script = self.script
            if callable(script):
                return script(request)
            return script.pop(0) if len(script) > 1 else script[0]

    def _serve(self, handler):
        """Handles one request; returns whether the connection has another."""
        handler.raw_requestline = handler.rfile.readline(65537)
        if not handler.raw_requestline or not handler.parse_request():
            return False
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        request = Request(handler, body)
        steps = self._next(request)
        connection = handler.connection
        try:
            for step in steps:
                if step is CLOSE or step is KEEP:
                    return step is KEEP
                if step is RESET:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                          struct.pack("ii", 1, 0))
                    connection.close()
                    return False
                if isinstance(step, threading.Event):
                    self._wait(step, connection)
                else:
                    connection.sendall(step)
        except OSError:
            request.left = True
        return False

    def _wait(self, event, connection):
        """Waits for the event; an OSError when the client leaves first."""
        connection.settimeout(0.02)
        while not event.wait(0.005) and not self.over.is_set():
            try:
                if connection.recv(1) == b"":
                    raise OSError("gone")
            except TimeoutError:
                pass
        connection.settimeout(WAIT_S)

    def wait_requests(self, n):
        wait_until(lambda: len(self.requests) >= n, f"{n} requests")
        return self.requests

    def close(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
