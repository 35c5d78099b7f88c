#!/usr/bin/env python3
"""A PostgreSQL server of the tests' own, in a temporary folder, on a socket there, with fsync on.

As a program, for CTest's fixture:
    postgres.py start FILE    starts one and writes its URL, and its folder, into FILE
    postgres.py stop FILE     stops it and removes its folder
"""
import glob
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

OWNERS = ("postgres", "nobody")  # the server refuses to be run by root
SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
port = 5432
max_connections = 300
shared_buffers = 32MB
max_wal_size = 256MB
wal_level = replica
logging_collector = off
log_line_prefix = '%m [%p] %a '
"""


def programs():
    """The folder of the server's programs, "" when it is not installed."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda p: int(p.split("/")[4]))
    if found:
        return os.path.dirname(found[-1])
    path = shutil.which("initdb")
    return os.path.dirname(path) if path else ""


def owner():
    if os.geteuid() != 0:
        return {}
    for name in OWNERS:
        try:
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        except KeyError:
            continue
    sys.exit("postgres.py: no user to run the server as")


def new_folder(parent="/tmp"):
    """One that the server's user may enter, and write to."""
    folder = tempfile.mkdtemp(prefix="holdfast-pg-", dir=parent)
    if owner():
        os.chown(folder, owner()["user"], owner()["group"])
    os.chmod(folder, 0o711)
    return folder


def remove_folder(folder):
    shutil.rmtree(folder, ignore_errors=True)


class Postgres:
    def __init__(self, folder=None, settings="", data="data", environ=None, parent="/tmp"):
        """A new server that is not started yet, or the one in that part of the folder.  environ: more of it, for the
        server itself; parent: of a new one's folder."""
        self.environ = environ or {}
        self.bin = programs()
        self.as_owner = owner()
        self.folder = folder or new_folder(parent)
        self.data = f"{self.folder}/{data}"
        if folder:
            return
        self.run("initdb", "-D", self.data, "-U", "holdfast", "-A", "trust", "-E", "UTF8",
                 "--locale=C", "--no-sync", "--data-checksums")
        with open(self.data + "/postgresql.conf", "a", encoding="utf-8") as conf:
            conf.write(SETTINGS.format(folder=self.folder) + settings)

    def url(self, database="postgres"):
        return f"host={self.folder} port=5432 user=holdfast dbname={database}"

    @property
    def socket(self):
        return f"{self.folder}/.s.PGSQL.5432"

    def new_standby(self, environ=None):
        """A copy, which is started and follows; what it has is not waited for."""
        standby = Postgres(new_folder(), environ=environ)
        self.run("pg_basebackup", "-d", self.url(), "-D", standby.data, "-R", "-X", "stream", "--checkpoint=fast",
                 "--no-sync")
        with open(standby.data + "/postgresql.conf", "a", encoding="utf-8") as conf:
            conf.write(f"unix_socket_directories = '{standby.folder}'\n")
        standby.start()
        return standby

    def set(self, name, value):
        self.sql(f"ALTER SYSTEM SET {name} = '{value}'")
        self.sql("SELECT pg_reload_conf()")

    def promote(self):
        self.run("pg_ctl", "-D", self.data, "-w", "promote")

    def run(self, program, *arguments, environ=None):
        done = subprocess.run([f"{self.bin}/{program}", *arguments], cwd="/", text=True, check=False,
                              env={**os.environ, **(environ or {})},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, **self.as_owner)
        if done.returncode != 0:
            raise RuntimeError(f"{program}: {done.stdout[-2000:]}{self.said()}")
        return done.stdout

    def said(self):
        """The end of the server's own log."""
        try:
            with open(self.folder + "/log", encoding="utf-8", errors="replace") as file:
                return file.read()[-2000:]
        except OSError:
            return ""

    def start(self):
        """Returns when it takes connections.  pg_ctl's log keeps the pipe of the caller closed."""
        self.run("pg_ctl", "-D", self.data, "-l", self.folder + "/log", "-w", "-t", "120", "start",
                 environ=self.environ)

    def stop(self, mode="fast"):
        self.run("pg_ctl", "-D", self.data, "-m", mode, "-w", "-t", "120", "stop")

    @property
    def pid(self):
        with open(self.data + "/postmaster.pid", encoding="utf-8") as file:
            return int(file.readline())

    def processes(self):
        """Pids of the server and of all that it has begun."""
        pids = [self.pid]
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path, encoding="utf-8") as file:
                    text = file.read()
            except OSError:
                continue
            fields = text.rpartition(")")[2].split()
            if int(fields[1]) == pids[0]:
                pids.append(int(text.split(" ", 1)[0]))
        return pids

    def signal(self, number):
        for pid in self.processes():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def kill(self):
        """kill -9 of all of it, as a crash; start() then repairs it."""
        os.kill(self.pid, signal.SIGSTOP)  # it begins no more
        pids = self.processes()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for pid in pids:
            while os.path.exists(f"/proc/{pid}") and not is_zombie(pid):
                time.sleep(0.01)
        for lock in (self.data + "/postmaster.pid", *glob.glob(self.folder + "/.s.PGSQL.*.lock")):
            os.unlink(lock)  # while nobody has taken leave of the dead one it counts as alive

    def sql(self, text, database="postgres"):
        return self.run("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d",
                        self.url(database), "-c", text).strip()

    def new_database(self, name):
        self.sql(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def close(self):
        try:
            self.stop("immediate")
        except RuntimeError:
            pass
        remove_folder(self.folder)


def is_zombie(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def main(verb, path):
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        os.unlink(path)
        if len(lines) > 1 and os.path.isdir(lines[1]):
            Postgres(lines[1]).close()
    if verb == "stop":
        return
    server = Postgres()
    server.start()
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{server.url()}\n{server.folder}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
