"""The real curl, as a script would use it: requests, and events that are cut and taken up again by Last-Event-ID; and
OpenSSL's s_client on the gateway's own TLS port."""

import json
import shutil
import signal
import subprocess

import pytest

from gateway import WAIT_S, Gateway
from holdfast import new_id, program

pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="no curl here")


def curl(*arguments, **options):
    return subprocess.run(["curl", "-sS", "--max-time", str(WAIT_S), *arguments], capture_output=True, text=True, check=False,
                          timeout=2 * WAIT_S, **options)


@pytest.fixture
def task(gateway):
    """The address of a task that says a, waits, and says b; what makes it go on; and the headers of its owner."""
    base = f"http://{gateway.host}:{gateway.port}/v1"
    owner = ["-H", "Authorization: Bearer " + json.loads(curl("-X", "POST", f"{base}/guest").stdout)["token"]]
    gate, conversation = gateway.path(), f"{base}/conversations/{new_id()}"
    message = json.dumps({"message": program({"token": "a"}, {"wait": gate}, {"token": "b"})})
    made = curl(*owner, "-H", "Content-Type: application/json", "-H", "Idempotency-Key: k", "-d", message, f"{conversation}/tasks")
    url = f"{conversation}/tasks/{json.loads(made.stdout)['task']['task_id']}"
    return url, gate, owner


def events_of(text):
    """[(id, event)] of a stream."""
    blocks = [dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
              for block in text.split("\n\n")]
    return [(int(fields["id"]), fields["event"]) for fields in blocks if "id" in fields]


def test_events_go_on_behind_last_event_id(task):
    url, gate, owner = task
    with subprocess.Popen(["curl", "-sN", *owner, f"{url}/events"], stdout=subprocess.PIPE, text=True) as first:
        seen = []
        while not seen or seen[-1][1] != "token":  # it comes though the stream goes on
            lines = []
            while (line := first.stdout.readline()) not in ("\n", ""):
                lines.append(line)
            seen += events_of("".join(lines) + "\n\n")
        first.send_signal(signal.SIGKILL)  # the lid closes
    open(gate, "w", encoding="utf-8").close()
    rest = curl("-N", *owner, "-H", f"Last-Event-ID: {seen[-1][0]}", f"{url}/events")
    assert rest.returncode == 0, rest.stderr
    both = seen + events_of(rest.stdout)
    assert [event for _, event in both] == ["task.created", "task.started", "token", "token", "final_answer", "task.completed"]
    assert [number for number, _ in both] == [1, 2, 3, 4, 5, 6]
    nothing = curl("-N", *owner, "-H", "Last-Event-ID: 6", "-w", "%{http_code}", f"{url}/events")
    assert nothing.stdout == "204"
    for wrong, code in (("x", 400), ("7", 409), ("-1", 400)):
        assert curl(*owner, "-H", f"Last-Event-ID: {wrong}", "-o", "/dev/null", "-w", "%{http_code}", f"{url}/events").stdout == str(code)


def test_stop_in_the_middle_is_a_cut_for_curl():
    """Exit status 18: a partial transfer, and no end that a script could take for the last word."""
    with Gateway() as gateway:
        base = f"http://{gateway.host}:{gateway.port}/v1"
        owner = ["-H", "Authorization: Bearer " + json.loads(curl("-X", "POST", f"{base}/guest").stdout)["token"]]
        made = curl(*owner, "--json", json.dumps({"message": program({"token": "a"}, {"hang": 1})}), f"{base}/conversations/c/tasks")
        url = f"{base}/conversations/c/tasks/{json.loads(made.stdout)['task']['task_id']}/events"
        with subprocess.Popen(["curl", "-sN", *owner, url], stdout=subprocess.PIPE, text=True) as stream:
            while stream.stdout.readline() != "event: token\n":
                pass
            gateway.kill()
            stream.stdout.read()
            assert stream.wait(WAIT_S) == 18
        gateway.start()


@pytest.mark.parametrize("version, spoken", [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")])
def test_s_client_speaks_with_it(tmp_path, version, spoken):
    key, cert = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                    "-out", cert, "-days", "2", "-subj", "/CN=localhost"], check=True, capture_output=True)
    with Gateway({"tls": {"cert": cert, "key": key}}) as gateway:
        done = subprocess.run(["openssl", "s_client", "-connect", f"{gateway.host}:{gateway.port}", "-CAfile", cert, "-alpn",
                               "h2,http/1.1", "-verify_return_error", "-ign_eof", version], capture_output=True, check=False,
                              timeout=2 * WAIT_S,
                              input=b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        said = done.stdout.decode()
        assert "Verify return code: 0 (ok)" in said and "ALPN protocol: http/1.1" in said
        assert f"New, {spoken}" in said and "Compression: NONE" in said
        assert "HTTP/1.1 200 OK" in said and "alive" in said
        assert "Secure Renegotiation IS supported" in said or spoken == "TLSv1.3"
        for old in ("-tls1", "-tls1_1"):
            refused = subprocess.run(["openssl", "s_client", "-connect", f"{gateway.host}:{gateway.port}", old, "-cipher",
                                      "ALL:@SECLEVEL=0"], capture_output=True, check=False, timeout=2 * WAIT_S, input=b"")
            assert refused.returncode != 0 and b"Cipher is (NONE)" in refused.stdout


def test_offer_of_http_2_in_clear_is_passed_over(gateway, task):
    """`curl --http2` offers h2c with each first request of a connection (RFC 9110 7.8)."""
    url, _, owner = task
    base = f"http://{gateway.host}:{gateway.port}"
    got = curl("--http2", "-w", "%{http_code} %{http_version} ", f"{base}/healthz", f"{base}/readyz")
    assert got.stdout == "alive\n200 1.1 ready\n200 1.1 ", got
    assert json.loads(curl("--http2", *owner, url).stdout)["task"]["task_id"] == url.rsplit("/", 1)[1]
    made = curl("--http2", *owner, "-H", "Content-Type: application/json", "-d", json.dumps({"message": program({"token": "a"})}),
                "-o", "/dev/null", "-w", "%{http_code}", f"{base}/v1/conversations/{new_id()}/tasks")
    assert made.stdout == "201", made
