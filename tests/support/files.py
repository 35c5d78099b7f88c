"""An owner who gives and reads files over HTTP, and what lies on disk of them."""

import contextlib
import http.client
import json
import os
import socket

from database import opened
from gateway import WAIT_S, on_server, run, wait_until, wrongs


class Owner:
    def __init__(self, gateway, token=None):
        self.gateway = gateway
        guest = json.loads(gateway.http("POST", "/v1/guest")[2]) if not token else {"token": token, "owner": None}
        self.token, self.name = guest["token"], guest["owner"]

    def open(self, method, path, body=None, headers=None, rcvbuf=None):
        """A connection that has asked; its user closes it."""
        link = http.client.HTTPConnection(self.gateway.host, self.gateway.port, timeout=WAIT_S)
        link.connect()
        if rcvbuf:
            link.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
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


def stored(gateway, what, table):
    """Rows of the bytes of files, where they lie on PostgreSQL."""
    return on_server(gateway.server_url(), f"SELECT {what} FROM {gateway.schema}.{table}").splitlines()


def blobs(gateway):
    if gateway.schema:
        return sorted(stored(gateway, "convert_from(blob, 'UTF8')", "file_blobs"))
    return sorted(path.name for path in (gateway.data / "files" / "blob").rglob("*") if path.is_file())


def parts(gateway):
    if gateway.schema:
        return sorted(stored(gateway, "convert_from(part, 'UTF8')", "file_parts"))
    return sorted(path.name for path in (gateway.data / "files" / "part").rglob("*") if path.is_file())


def await_part(gateway, size):
    """Until so much of an upload is on disk."""
    def sizes():
        if gateway.schema:
            return int(stored(gateway, "coalesce(sum(size), 0)", "file_parts")[0])
        with contextlib.suppress(FileNotFoundError):  # it becomes a blob
            return sum(path.stat().st_size for path in (gateway.data / "files/part").rglob("*") if path.is_file())
        return -1
    wait_until(lambda: sizes() == size, "what came")


# The next ones change or read what a gateway has that does not run.


def aged(gateway, days, *file_ids):
    """Files (none named: all), and what came of unfinished ones, are so many days older than they were."""
    ms = days * 86_400_000
    if gateway.schema:
        names = ", ".join(f"'{name}'" for name in file_ids)
        which = f"WHERE convert_from(file_id, 'UTF8') IN ({names})" if file_ids else ""
        for sql in (f"UPDATE {gateway.schema}.files SET created_at = created_at - {ms} {which}",
                    f"UPDATE {gateway.schema}.file_parts SET written_at = written_at - {ms}"):
            on_server(gateway.server_url(), sql)
        return
    for path in (gateway.data / "files/part").rglob("*"):
        if path.is_file():
            os.utime(path, (1, 1))
    with opened(gateway) as database:
        for name in file_ids or [row[0] for row in database.execute("SELECT file_id FROM files")]:
            database.execute("UPDATE files SET created_at = created_at - ? WHERE file_id = ?", (ms, name))


def put_stray(gateway):
    """The bytes of a file whose row was not committed; its name."""
    name = "ab" + "0" * 62
    if gateway.schema:
        on_server(gateway.server_url(), f"INSERT INTO {gateway.schema}.file_blobs (blob, slot, id, size) "
                  f"VALUES ('{name}'::bytea, 0, 1000000, 0)")
        return name
    path = gateway.data / "files/blob/ab" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"stray")
    return name


def named_blobs(gateway):
    """Those of the files that are there."""
    if gateway.schema:
        return set(stored(gateway, "DISTINCT convert_from(blob, 'UTF8')", "files WHERE state < 2"))
    with opened(gateway) as database:
        return {row[0] for row in database.execute("SELECT blob FROM files WHERE state < 2")}


def assert_sound(gateway):
    """By its doctor; one of PostgreSQL's is asked in test_postgres.py."""
    if not gateway.schema:
        assert wrongs(run("doctor", "--full", "--data", str(gateway.data)).stdout) == []
