"""An owner who gives and reads files over HTTP, and what lies on disk of them."""

import contextlib
import http.client
import json
import socket

from gateway import WAIT_S, wait_until


class Owner:
    def __init__(self, gateway, token=None):
        self.gateway = gateway
        guest = json.loads(gateway.http("POST", "/v1/guest")[2]) if not token else {"token": token, "owner": None}
        self.token, self.name = guest["token"], guest["owner"]

    def open(self, method, path, body=None, headers=None):
        """A connection that has asked; its user closes it."""
        link = http.client.HTTPConnection(self.gateway.host, self.gateway.port, timeout=WAIT_S)
        link.request(method, f"/v1/conversations/{path}", body,
                     {"Authorization": f"Bearer {self.token}", **(headers or {})})
        return link

    def ask(self, method, path, body=None, headers=None):
        """(status, headers by lower name, bytes)"""
        link = self.open(method, path, body, headers)
        try:
            answer = link.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            link.close()

    def give(self, conversation, body, kind="text/plain", name=None, key=None):
        headers = {"Content-Type": kind}
        if name:
            headers["Content-Disposition"] = name
        status, _, answer = self.ask("POST", f"{conversation}/files{f'?upload={key}' if key else ''}", body, headers)
        assert status == 201, answer
        return json.loads(answer)

    def begin(self, conversation, key, body, length):
        """A POST whose body stops before its end; the socket."""
        wire = socket.create_connection((self.gateway.host, self.gateway.port), WAIT_S)
        wire.sendall(f"POST /v1/conversations/{conversation}/files?upload={key} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                     f"Authorization: Bearer {self.token}\r\nContent-Length: {length}\r\n\r\n".encode() + body)
        return wire

    def offset(self, conversation, key):
        status, headers, _ = self.ask("HEAD", f"{conversation}/files?upload={key}")
        assert status == 200
        return int(headers["upload-offset"])

    def go_on(self, conversation, key, offset, rest):
        return self.ask("PATCH", f"{conversation}/files?upload={key}", rest,
                        {"Content-Type": "text/plain", "Upload-Offset": str(offset)})


def blobs(gateway):
    return sorted(path.name for path in (gateway.data / "files" / "blob").rglob("*") if path.is_file())


def parts(gateway):
    return sorted(path.name for path in (gateway.data / "files" / "part").rglob("*") if path.is_file())


def await_part(gateway, size):
    """Until so much of an upload is on disk."""
    def sizes():
        with contextlib.suppress(FileNotFoundError):  # it becomes a blob
            return sum(path.stat().st_size for path in (gateway.data / "files/part").rglob("*") if path.is_file())
        return -1
    wait_until(lambda: sizes() == size, "what came")
