"""Several gateways over one database: who is the home of whom."""

import contextlib
import pathlib
import shutil
import tempfile

import tokens
from gateway import Gateway, wait_until

N_SLOTS = 4096
LEASE_S = 5
LONG_LEASE_S = 20  # where nothing is to be taken over: a busy machine keeps a process from running for seconds


def slot_of(owner):
    """core/slot.h."""
    h = 0xcbf29ce484222325
    for byte in owner.encode():
        h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    h ^= h >> 32
    return (h ^ h >> 16) & 0xffffffff & (N_SLOTS - 1)


class Address:
    """A gateway's that is not there yet, for a relay."""

    def __init__(self, port, host="127.0.0.1"):
        self.host, self.port = host, port


class Nodes:
    """Gateways by name, each with a folder of its own; closes them all."""

    def __init__(self, server, database, lease_s=LEASE_S, config=None, standby=None, store=None):
        """store: further keys of that section."""
        self.server, self.database, self.lease_s = server, database, lease_s
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-test-"))
        url = server.new_database(database)
        if standby:  # a list of hosts, of which the one that takes writes is used
            url = url.replace(server.folder, f"{server.folder},{standby.folder}")
        (self.folder / "url").write_text(url + "\n", encoding="utf-8")
        (self.folder / "secret").write_text(32 * "s", encoding="utf-8")
        self.config, self.store = config or {}, store or {}
        self.gateways = {}

    def url_by(self, name, wire):
        """The file with the URL of the database, by way of a relay to its socket."""
        url = (self.folder / "url").read_text(encoding="utf-8")
        url = url.replace(f"host={self.server.folder} port=5432", f"host={wire.host} port={wire.port}")
        path = self.folder / f"{name}.url"
        path.write_text(url, encoding="utf-8")
        return path

    def new(self, name, cluster=None, wire=None, **more):
        """cluster: further keys of that section; wire: to the server."""
        folder = self.folder / name
        folder.mkdir()
        url = self.url_by(name, wire) if wire else self.folder / "url"
        store = {"kind": "postgres", "url_file": str(url), "retry_s": 120, **self.store}
        cluster = {"secret_file": str(self.folder / "secret"), "node": name, "lease_s": self.lease_s,
                   **(cluster or {})}
        self.gateways[name] = Gateway({"store": store, "cluster": cluster, "auth": tokens.config(folder), **self.config},
                                      folder=folder, **more)
        return self.gateways[name]

    def start(self, *names, **more):
        """Starts them, and returns when each has its share."""
        for name in names:
            self.new(name, **more).start()
        self.settled(len([g for g in self.gateways.values() if g.process]))
        return [self.gateways[name] for name in names]

    def start_pair(self, home="home", front="front"):
        """A gateway that has all owners, and one that carries clients to it."""
        self.new(home, {"listen": "127.0.0.1:0"}).start()
        self.settled(1)
        return self.gateways[home], self.start_front(front)

    def start_front(self, name):
        """Returns when it has a link to every home."""
        front = self.new(name, {"listen": "127.0.0.1:0", "front_only": True}).start()
        for other, gateway in self.gateways.items():
            if gateway.process and not gateway.config["cluster"].get("front_only"):
                front.logged("component=link event=up", f"node={other}", "as=front")
        return front

    def sql(self, text):
        return self.server.sql(text, self.database)

    def shares(self):
        """name → the number of its slots."""
        rows = self.sql("SELECT convert_from(n.node, 'UTF8'), count(s.slot) FROM nodes n LEFT JOIN slots s "
                        "ON s.incarnation = n.incarnation WHERE n.state = 0 GROUP BY 1")
        return {name: int(count) for name, count in (row.split("|") for row in rows.splitlines())}

    def settled(self, n):
        def is_fair():
            shares = sorted(self.shares().values())
            return len(shares) == n and sum(shares) == N_SLOTS and shares[-1] - shares[0] <= 1
        wait_until(is_fair, f"{n} nodes with a share each")

    def home_of(self, owner):
        """The name of the node that has the owner's slot, "" for nobody."""
        return self.sql("SELECT convert_from(n.node, 'UTF8') FROM slots s JOIN nodes n ON n.incarnation = "
                        f"s.incarnation WHERE s.slot = {slot_of(owner)}")

    def homes_of(self, owners):
        """The same for each of them, by one look at all."""
        rows = self.sql("SELECT s.slot, convert_from(n.node, 'UTF8') FROM slots s JOIN nodes n USING (incarnation)")
        homes = dict(row.split("|", 1) for row in rows.splitlines())
        return [homes.get(str(slot_of(owner)), "") for owner in owners]

    def owners_at(self, name, n, prefix="u"):
        """Names of owners whose home is that node now; one that has just begun gets its first slots with a beat."""
        def homes():
            return {int(slot) for slot in self.sql(
                "SELECT s.slot FROM slots s JOIN nodes n ON n.incarnation = s.incarnation "
                f"WHERE n.state = 0 AND n.node = convert_to('{name}', 'UTF8')").splitlines()}
        slots = wait_until(homes, f"slots of {name}")
        found = (owner for owner in (f"{prefix}{i}" for i in range(100000)) if slot_of(owner) in slots)
        return [next(found) for _ in range(n)]

    def close(self):
        try:
            for gateway in self.gateways.values():
                gateway.close()
        finally:
            for gateway in self.gateways.values():
                with contextlib.suppress(Exception):
                    if gateway.process:
                        gateway.kill()
            shutil.rmtree(self.folder, ignore_errors=True)
