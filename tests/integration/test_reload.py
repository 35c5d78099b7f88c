"""SIGHUP: keys and certificates are read again, and no connection is dropped for it."""

import json
import shutil
import signal
import socket
import ssl
import subprocess

import pytest

import tokens
from gateway import WAIT_S, Gateway, wait_until
from holdfast import Client
from wire import Wire


KINDS = {"ec": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"], "rsa": ["-newkey", "rsa:2048"],
         "ed25519": ["-newkey", "ed25519"]}


def make_certificate(folder, name, kind="ec"):
    key, cert = str(folder / f"{name}.key"), str(folder / f"{name}.pem")
    subprocess.run(["openssl", "req", "-x509", *KINDS[kind], "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", f"/CN={name}"],
                   check=True, capture_output=True)
    return cert, key


def hang_up(gateway, component, event):
    """Sends SIGHUP and waits until the gateway says what came of it."""
    before = len(gateway.log)
    gateway.process.send_signal(signal.SIGHUP)
    said = f"component={component} event={event}"
    return wait_until(lambda: next((line for line in gateway.log[before:] if said in line), None), said)


def handshake(gateway, **options):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    for name, value in options.items():
        setattr(tls, name, value)
    tls.set_ciphers("ALL:@SECLEVEL=0")
    return tls.wrap_socket(socket.create_connection((gateway.host, gateway.port), WAIT_S))


def fingerprint(gateway):
    with handshake(gateway) as wire:
        return wire.getpeercert(binary_form=True)


@pytest.fixture
def files(tmp_path):
    """The certificate that is served, and two to change it for."""
    one, two = make_certificate(tmp_path, "one"), make_certificate(tmp_path, "two")
    served = str(tmp_path / "served.pem"), str(tmp_path / "served.key")
    for source, target in zip(one, served):
        shutil.copy(source, target)
    return served, one, two


def test_certificate_is_changed_under_open_connections(files):
    served, one, two = files
    with Gateway({"tls": {"cert": served[0], "key": served[1]}}) as gateway:
        with handshake(gateway) as before:
            first = before.getpeercert(binary_form=True)
            assert fingerprint(gateway) == first
            for source, target in zip(two, served):
                shutil.copy(source, target)
            hang_up(gateway, "tls", "reloaded")
            assert fingerprint(gateway) != first
            assert fingerprint(gateway) == ssl.PEM_cert_to_DER_cert(open(two[0], encoding="ascii").read())
            before.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")  # it goes on
            assert before.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("kinds", [("ec", "rsa", "ec"), ("rsa", "ec", "rsa"), ("ec", "ed25519", "rsa")])
def test_certificate_of_another_kind_of_key_takes_the_place_of_the_old_one(tmp_path, kinds):
    """OpenSSL keeps one for each kind, and chooses by what the client likes best: none but the new one may be left."""
    pairs = [make_certificate(tmp_path, f"{i}-{kind}", kind) for i, kind in enumerate(kinds)]
    served = str(tmp_path / "served.pem"), str(tmp_path / "served.key")
    for source, target in zip(pairs[0], served):
        shutil.copy(source, target)
    with Gateway({"tls": {"cert": served[0], "key": served[1]}}) as gateway:
        for pair in pairs[1:]:
            for source, target in zip(pair, served):
                shutil.copy(source, target)
            hang_up(gateway, "tls", "reloaded")
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                with handshake(gateway, minimum_version=version, maximum_version=version) as wire:
                    assert wire.getpeercert(binary_form=True) == \
                        ssl.PEM_cert_to_DER_cert(open(pair[0], encoding="ascii").read())


def test_chain_is_changed_with_its_certificate(tmp_path):
    chains = []
    for name in ("old", "new"):
        ca, ca_key = str(tmp_path / f"{name}-ca.pem"), str(tmp_path / f"{name}-ca.key")
        key, cert, request = (str(tmp_path / f"{name}.{end}") for end in ("key", "pem", "csr"))
        openssl("req", "-x509", *KINDS["ec"], "-nodes", "-keyout", ca_key, "-out", ca, "-days", "2", "-subj", f"/CN={name} CA")
        openssl("req", "-new", *KINDS["ec"], "-nodes", "-keyout", key, "-out", request, "-subj", "/CN=localhost")
        openssl("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-days", "2", "-out", cert)
        with open(cert, "a", encoding="ascii") as chain:
            chain.write(open(ca, encoding="ascii").read())
        chains.append((cert, key, ca))
    served = str(tmp_path / "served.pem"), str(tmp_path / "served.key")
    with_chain = lambda gateway: openssl("s_client", "-connect", f"{gateway.host}:{gateway.port}", "-showcerts")  # noqa: E731
    for source, target in zip(chains[0], served):
        shutil.copy(source, target)
    with Gateway({"tls": {"cert": served[0], "key": served[1]}}) as gateway:
        assert "CN = old CA" in with_chain(gateway)
        for source, target in zip(chains[1], served):
            shutil.copy(source, target)
        hang_up(gateway, "tls", "reloaded")
        said = with_chain(gateway)
        assert "CN = new CA" in said and "old CA" not in said and said.count("BEGIN CERTIFICATE") == 2


def openssl(*arguments):
    return subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=True, input="",
                          timeout=WAIT_S).stdout


def test_pair_that_does_not_fit_changes_nothing(files):
    served, one, two = files
    with Gateway({"tls": {"cert": served[0], "key": served[1]}}) as gateway:
        first = fingerprint(gateway)
        shutil.copy(two[0], served[0])  # with the key of the other one
        assert served[1] in hang_up(gateway, "tls", "not_reloaded")
        assert fingerprint(gateway) == first
        open(served[0], "w", encoding="ascii").close()
        assert served[0] in hang_up(gateway, "tls", "not_reloaded")
        assert fingerprint(gateway) == first
        shutil.copy(two[0], served[0])
        shutil.copy(two[1], served[1])
        hang_up(gateway, "tls", "reloaded")
        assert fingerprint(gateway) != first


def test_only_tls_1_2_and_1_3_are_spoken(files):
    served, _, _ = files
    with Gateway({"tls": {"cert": served[0], "key": served[1]}}) as gateway:
        for version, name in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
            with handshake(gateway, minimum_version=version, maximum_version=version) as wire:
                assert wire.version() == name
        with pytest.raises((ssl.SSLError, OSError)):
            handshake(gateway, minimum_version=ssl.TLSVersion.TLSv1, maximum_version=ssl.TLSVersion.TLSv1_1)


def test_keys_are_changed_under_open_connections(tmp_path):
    with Gateway({"auth": tokens.config(tmp_path)}) as gateway:
        with Client(gateway, token=tokens.token("ann")) as client:
            fresh = b"another secret of more than thirty-two bytes, for the tests"
            (tmp_path / "secret").write_bytes(fresh)
            hang_up(gateway, "auth", "reloaded")
            client.quiet()  # who is in stays in
            with Client(gateway, hello=False) as late:
                late.post("hello", token=tokens.token("ann"))
                assert late.closing().code == 4401
            with Client(gateway, token=tokens.token("ann", secret=fresh)) as late:
                assert late.owner == client.owner
            (tmp_path / "secret").write_bytes(b"short")
            assert "auth.keys[0]" in hang_up(gateway, "auth", "not_reloaded")
            with Client(gateway, token=tokens.token("ann", secret=fresh)) as late:
                late.quiet()


def configure(gateway, keys, **more):
    """Changes the list of keys, and more, in the file of a gateway that runs."""
    path = gateway.folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["auth"]["keys"] = keys
    path.write_text(json.dumps({**config, **more}), encoding="utf-8")


def is_let_in(gateway, token):
    with Client(gateway, hello=False) as client:
        return client.ask("hello", token=token)["type"] == "welcome"


def test_key_is_added_and_taken_away(tmp_path):
    other = b"a second secret of more than thirty-two bytes, for the tests"
    (tmp_path / "other").write_bytes(other)
    auth = tokens.config(tmp_path)
    (first,) = auth["keys"]
    second = {"kid": "k2", "alg": "HS256", "secret_file": str(tmp_path / "other")}
    old, new = tokens.token("ann"), tokens.token("ann", secret=other, kid="k2")
    with Gateway({"auth": auth}) as gateway, Client(gateway, token=old) as client:
        assert not is_let_in(gateway, new)
        configure(gateway, [first, second])
        assert "keys=2" in hang_up(gateway, "auth", "reloaded")
        assert is_let_in(gateway, old) and is_let_in(gateway, new)
        configure(gateway, [second])
        assert "keys=1" in hang_up(gateway, "auth", "reloaded")
        assert not is_let_in(gateway, old) and is_let_in(gateway, new)
        client.quiet()  # who is in stays in


BAD_LISTS = {
    "none": [],
    "a kid twice": ["first", "first"],
    "a file that is not there": ["first", {"kid": "k2", "alg": "HS256", "secret_file": "/nonexistent/secret"}],
    "an unknown member": [{"kid": "k1", "alg": "HS256", "secret": "x"}],
}


@pytest.mark.parametrize("what", BAD_LISTS)
def test_list_of_keys_with_a_fault_changes_nothing(tmp_path, what):
    auth = tokens.config(tmp_path)
    with Gateway({"auth": auth}) as gateway:
        configure(gateway, [auth["keys"][0] if key == "first" else key for key in BAD_LISTS[what]])
        assert "auth.keys" in hang_up(gateway, "auth", "not_reloaded")
        errors = [line for line in gateway.log if "level=error" in line and "runs_as_root" not in line]
        assert len(errors) == 1
        assert is_let_in(gateway, tokens.token("ann"))


def test_file_with_any_fault_changes_no_key(tmp_path):
    auth = tokens.config(tmp_path)
    with Gateway({"auth": auth}) as gateway:
        configure(gateway, [{**auth["keys"][0], "kid": "k2"}], drain_s="soon")
        assert "drain_s" in hang_up(gateway, "auth", "not_reloaded")
        (gateway.folder / "config.json").write_text("{", encoding="utf-8")
        hang_up(gateway, "auth", "not_reloaded")
        (gateway.folder / "config.json").unlink()
        hang_up(gateway, "auth", "not_reloaded")
        assert is_let_in(gateway, tokens.token("ann"))


def test_keys_come_to_no_gateway_that_has_none(tmp_path):
    """Nor is a guest made a stranger: what guests may do was settled at the start."""
    with Gateway({"auth": {}}) as gateway:
        guest = Client(gateway).token
        configure(gateway, tokens.config(tmp_path)["keys"])
        assert "auth.keys" in hang_up(gateway, "auth", "not_reloaded")
        assert is_let_in(gateway, guest)


def test_without_keys_or_certificate_it_is_no_harm():
    with Gateway() as gateway, Client(gateway) as client:
        hang_up(gateway, "auth", "reloaded")
        client.quiet()
        with Wire(gateway) as wire:
            assert wire.status == 101
        with Client(gateway, token=client.token) as again:  # the guests' key is the same
            assert again.owner == client.owner
