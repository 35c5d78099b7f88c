"""A gateway of several processes: which of them has a client."""

import os
import pathlib

from gateway import wait_until


def members(gateway):
    """Their pids: the home first, then the fronts as they were begun."""
    pid = gateway.process.pid
    return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def sockets_of(pid):
    """The inodes of them."""
    found = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(fd)
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(int(target[8:-1]))
    return found


def inode_of_peer(server_port, client_port):
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        local, remote = (int(end.rpartition(":")[2], 16) for end in fields[1:3])
        if (local, remote) == (server_port, client_port):
            return int(fields[9])
    return 0


def member_of(gateway, port):
    """The pid of the process that has accepted the connection from that port."""
    def found():
        inode = inode_of_peer(gateway.port, port)
        return next((pid for pid in members(gateway) if inode and inode in sockets_of(pid)), None)
    return wait_until(found, "a process that has the connection")


def client_at(gateway, pid, connect):
    """A client that this process has accepted: which of them takes a connection is the kernel's affair."""
    others = []
    def found():
        client = connect()
        if member_of(gateway, client.sock.getsockname()[1]) == pid:
            return client
        others.append(client)
        return None
    client = wait_until(found, "a client at that process")
    for other in others:
        other.close()
    return client
