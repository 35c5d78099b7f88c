"""The command line and the configuration (DESIGN 8)."""

import json
import os
import pathlib
import re
import subprocess

import pytest

import tokens
from gateway import BINARY, WAIT_S, Gateway, run, script_agent
from holdfast import Client
from terminal import Command

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def check(tmp_path, config):
    """(exit status, all that was said) of check-config."""
    path = tmp_path / "config.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    done = run("check-config", str(path))
    return done.returncode, done.stdout + done.stderr


def test_version():
    done = run("version")
    assert done.returncode == 0
    assert re.search(r"\d+\.\d+", done.stdout)


def test_no_command_or_an_unknown_one_is_a_usage_error():
    for arguments, why in (((), "a command is missing"), (("serve", "--dance"), "serve has no option --dance"),
                           (("serve", "word"), "serve takes options only"), (("check-config",), "check-config needs a file"),
                           (("token",), "token needs --sub"), (("dance",), 'there is no command "dance"'),
                           (("dance", "--help"), 'there is no command "dance"'), (("help", "dance"), 'there is no command "dance"')):
        done = run(*arguments)
        assert done.returncode == 2 and not done.stdout and done.stderr.startswith(f"holdfast: {why}")
        assert "help" in done.stderr and done.stderr.count("\n") == 1, "the whole help would push it off the screen"


@pytest.mark.parametrize("listen, config, url", [
    ("127.0.0.1:0", {}, r"http://127\.0\.0\.1:\d+"), ("0.0.0.0:0", {"guests": True}, r"http://localhost:\d+"),
    ("127.0.0.1:0", {"public_url": "https://chat.example"}, "https://chat\\.example")])
def test_start_ends_with_the_address_of_the_page(tmp_path, listen, config, url):
    (tmp_path / "config.json").write_text(json.dumps(config))
    command = Command("serve", "--listen", listen, "--data", str(tmp_path / "data"), "--config", str(tmp_path / "config.json"),
                      environ=os.environ, terminal=True)
    command.until("Ctrl-C stops.")
    command.type("\x03")
    status, said, _ = command.end()
    assert status == 0 and re.search(rf"\r\nOpen {url} in a browser\. Ctrl-C stops\.\r\n", said), said


def test_good_configuration(tmp_path):
    status, _ = check(tmp_path, {})
    assert status == 0
    status, _ = check(tmp_path, {"agents": [script_agent(default=True)], "limits": {"burst": 10}})
    assert status == 0


NEAREST = [  # a key that is not, and the known one that is nearest
    ({"lisen": "127.0.0.1:1"}, "lisen", "listen"),
    ({"limits": {"mesage_bytes": 1000}}, "mesage_bytes", "message_bytes"),
    ({"store": {"durabilty": "power"}}, "durabilty", "durability"),
    ({"agents": [{"name": "a", "kind": "exec", "comand": ["x"]}]}, "comand", "command"),
    ({"auth": {"isuer": "x"}}, "isuer", "issuer"),
]


@pytest.mark.parametrize("config,wrong,near", NEAREST, ids=lambda v: v if isinstance(v, str) else "")
def test_unknown_key_is_an_error_that_names_the_nearest(tmp_path, config, wrong, near):
    status, said = check(tmp_path, config)
    assert status == 2
    assert wrong in said and near in said


FAULTS = [
    ("{", None), ("[]", None), ('{"listen":1}', "listen"), ('{"listen":"nowhere"}', "listen"),
    ('{"listen":"127.0.0.1:99999"}', "listen"), ('{"drain_s":"1"}', "drain_s"), ('{"drain_s":-1}', "drain_s"),
    ('{"agents":[{"name":"a","kind":"dance"}]}', "kind"), ('{"agents":[{"kind":"exec","command":["x"]}]}', "name"),
    ('{"agents":[{"name":"a","kind":"exec"}]}', "command"),
    ('{"agents":[{"name":"a","kind":"exec","command":[]}]}', "command"),
    ('{"agents":[{"name":"a","kind":"exec","command":["x"]},{"name":"a","kind":"exec","command":["y"]}]}', "name"),
    ('{"store":{"kind":"paper"}}', "store.kind"), ('{"store":{"durability":"none"}}', "durability"),
    ('{"limits":{"burst":0.5}}', "burst"), ('{"limits":{"message_bytes":0}}', "message_bytes"),
    ('{"auth":{"keys":[{"kid":"k","alg":"none"}]}}', "alg"),
    ('{"auth":{"keys":[{"kid":"k","alg":"HS256","secret_file":"/nonexistent"}]}}', "secret_file"),
    ('{"auth":{"keys":[{"kid":"k","alg":"HS256"}]}}', "secret_file"),
    ('{"listen":"a","listen":"b"}', "duplicate"),
    ('{"origins":["not an origin"]}', "origins"),
]


@pytest.mark.parametrize("text,named", FAULTS, ids=range(len(FAULTS)))
def test_fault_is_named_with_its_key(tmp_path, text, named):
    status, said = check(tmp_path, text)
    assert status == 2
    if named:
        assert named in said


def test_all_faults_are_listed(tmp_path):
    status, said = check(tmp_path, {"lisen": 1, "drain_s": "x", "limits": {"burst": -5}, "store": {"kind": "x"}})
    assert status == 2
    for key in ("lisen", "drain_s", "burst", "store.kind"):
        assert key in said


def test_serve_refuses_a_bad_configuration_with_2(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"lisen": 1}')
    done = run("serve", "--config", str(path), "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    assert done.returncode == 2 and "lisen" in done.stderr and not done.stdout
    done = run("serve", "--config", str(tmp_path / "absent.json"))
    assert done.returncode == 2 and "absent.json" in done.stderr


def test_empty_key_refuses_to_start(tmp_path):  # F63
    secret = tmp_path / "secret"
    secret.write_bytes(b"")
    status, _ = check(tmp_path, {"auth": {"keys": [{"kid": "k", "alg": "HS256", "secret_file": str(secret)}]}})
    assert status == 2


@pytest.mark.parametrize("config,ok", [
    ({"listen": "0.0.0.0:0"}, False),
    ({"listen": "0.0.0.0:0", "guests": True}, True),
    ({"listen": "0.0.0.0:0", "auth": "keys"}, True),
    ({"listen": "0.0.0.0:0", "auth": "cookie"}, False),
    ({"listen": "0.0.0.0:0", "auth": "cookie", "origins": ["https://chat.example"]}, True),
])
def test_public_bind_needs_keys_or_guests_on_purpose(tmp_path, config, ok):
    if "auth" in config:
        more = {"cookie": "session"} if config["auth"] == "cookie" else {}
        config = {**config, "auth": tokens.config(tmp_path, **more)}
    status, said = check(tmp_path, config)
    assert status == (0 if ok else 2), said


def test_approval_that_amounts_to_a_shell_is_warned_of(tmp_path):
    programs = ["git", "ls", "find", "awk", "cat", "sqlite3", "ed", "vim", "/usr/bin/python3.11", "xargs", "grep"]
    status, said = check(tmp_path, {"terminal": {"approved": programs, "approved_input": ["cat", "ed"]}})
    warned = re.findall(r"warning: (terminal\.\w+)\[(\d+)\]: .*a shell$", said, re.M)
    assert status == 0 and "good" in said
    assert [programs[int(n)] for key, n in warned if key == "terminal.approved"] == \
        ["git", "find", "awk", "sqlite3", "ed", "vim", "/usr/bin/python3.11", "xargs"]
    assert [n for key, n in warned if key == "terminal.approved_input"] == ["1"]
    assert "warning" not in check(tmp_path, {"terminal": {"approved": ["ls", "cat", "*"]}})[1]


COMMENTED = """// the gateway of the test
{
  /* where: "{" is no brace here,
     nor is // a comment */ "page": {"name": "a // b /* c */ \\" // d"}, // "drain_s": 1,
  "drain_s": 7 /**/
}
"""


def test_comments_are_blanks(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(COMMENTED)
    assert run("check-config", str(path)).returncode == 0
    shown = json.loads(run("print-config", str(path)).stdout)
    assert shown["drain_s"] == 7 and shown["page"]["name"] == 'a // b /* c */ " // d'
    for text, place in (('{ /* two\nlines */ "drain_s": x }', "line 2, column 21"), ("{} /* open", "not closed"),
                        ("{} /", "line 1, column 4"), ('{"drain_s": 1 / 2}', "line 1, column 15")):
        status, said = check(tmp_path, text)
        assert status == 2 and place in said, said


def test_what_was_not_given_is_not_printed(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("{}")
    assert "tls" not in json.loads(run("print-config", str(path)).stdout)


def test_key_is_not_in_what_is_said(tmp_path):
    auth = tokens.config(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"auth": auth, "lisen": 1}))
    done = run("check-config", str(path))
    assert tokens.SECRET.decode() not in done.stdout + done.stderr


@pytest.mark.parametrize(("arguments", "why"), [
    (("serv",), '"serv" (did you mean serve?)'), (("Backup", "x"), '(did you mean backup?)'),
    (("serve", "--confg", "x"), "no option --confg; did you mean --config?"),
    (("chat", "--agnt", "x"), "no option --agnt; did you mean --agent?"), (("verify", "a", "b"), "takes no further word: b"),
    (("chat", "--agnet", "x"), "no option --agnet; did you mean --agent?"), (("sevre",), "(did you mean serve?)"),
    (("chat", "--lits"), "no option --lits; did you mean --list?"), (("admin", "kcik", "x"), 'no verb "kcik"; did you mean kick?'),
    (("check-config", "a", "b"), "takes no further word: b"), (("print-config", "a", "b"), "takes no further word: b"),
    (("backup", "a", "b"), "takes no further word: b"), (("version", "x"), "version takes nothing")])
def test_slip_is_told_and_no_word_is_passed_over(arguments, why):
    said = run(*arguments)
    assert said.returncode == 2 and not said.stdout and why in said.stderr and said.stderr.count("\n") == 1


def test_word_that_resembles_none_gets_no_advice():
    for arguments in (("dance",), ("chat", "--dance"), ("serve", "-x")):
        assert "did you mean" not in run(*arguments).stderr


@pytest.mark.parametrize("arguments", [("doctor",), ("backup", "b.db"), ("admin", "nodes")])
def test_folder_of_nobody_is_told_with_the_option_that_names_another(tmp_path, arguments):
    """An operator's own home on the machine of a service."""
    said = run(*arguments, environ={"XDG_STATE_HOME": str(tmp_path / "state")})
    assert said.returncode == 1 and not said.stdout and said.stderr.count("\n") == 1
    assert f"no data directory {tmp_path}/state/holdfast; --data names another one" in said.stderr
    (tmp_path / "state/holdfast").mkdir(parents=True)
    assert "--data" not in run(*arguments, environ={"XDG_STATE_HOME": str(tmp_path / "state")}).stderr


def test_token_without_its_folder_is_one_line(tmp_path):
    said = run("token", "--sub", "a", "--data", str(tmp_path / "none" / "x"))
    assert said.returncode == 1 and said.stderr.endswith("No such file or directory\n") and said.stderr.count("\n") == 1


NAMED = {  # each way in which a configuration names a file
    "auth.keys[0].secret_file": {"auth": {"keys": [{"kid": "k", "alg": "HS256", "secret_file": "none"}]}},
    "auth.keys[0].public_key_file": {"auth": {"keys": [{"kid": "k", "alg": "ES256", "public_key_file": "none"}]}},
    "tls": {"tls": {"cert": "none", "key": "none"}},
    "store.url_file": {"store": {"kind": "postgres", "url_file": "none"}, "auth": {"jwks_url": "https://id.example/keys"}},
    "cluster.secret_file": {"cluster": {"secret_file": "none"}},
    "models[0].api_key_file": {"models": [{"name": "m", "base_url": "http://x", "model": "m", "api_key_file": "none"}],
                               "agents": [{"name": "a", "model": "m"}, {"name": "b", "model": "m"}]},
    "models[1].ca_file": {"models": [{"name": "m", "base_url": "http://x", "model": "m", "fallback": "n"},
                                     {"name": "n", "base_url": "http://x", "model": "n", "ca_file": "none"}],
                          "titles": {"model": "m"}},
    "agents[0].api_key_file": {"agents": [{"name": "a", "kind": "http", "url": "http://x", "api_key_file": "none"}]},
    "workers[0].secret_file": {"agents": [{"name": "a", "kind": "worker"}],
                               "workers": [{"name": "w", "secret_file": "none", "agents": ["a"]}]},
    "webhooks[0].secret_file": {"webhooks": [{"name": "w", "url": "http://x", "secret_file": "none"}]},
    "traces.api_key_file": {"traces": {"url": "http://x", "api_key_file": "none"}},
    "page.mark": {"page": {"mark": "none"}},
}


@pytest.mark.parametrize("key", NAMED)
def test_file_that_is_not_there_is_a_fault_of_the_configuration(tmp_path, key):
    """One line with the key and the file; a start says the same, and a manager does not repeat it."""
    (tmp_path / "c.json").write_text(json.dumps(NAMED[key]).replace('"none"', json.dumps(str(tmp_path / "none"))))
    for command in (["check-config", tmp_path / "c.json"],
                    ["serve", "--config", tmp_path / "c.json", "--listen", "127.0.0.1:0", "--data", tmp_path / "data"]):
        done = run(*map(str, command))
        first, fault = done.stderr.splitlines()
        assert (done.returncode, first) == (2, "holdfast: the configuration has 1 fault"), done.stderr
        assert fault.startswith(f"{key}: ") and fault.endswith("No such file or directory")
        assert key == "page.mark" or f"{tmp_path}/none: " in fault
    assert not (tmp_path / "data").exists()


def test_variable_that_is_not_set_is_a_fault_of_a_start_alone(tmp_path):
    """A check of the file may not have the service's environment.  A model that nobody asks needs no key."""
    model = {"base_url": "http://x", "model": "m", "api_key_env": "NO_SUCH_KEY"}
    (tmp_path / "c.json").write_text(json.dumps({
        "models": [{"name": "m", **model}, {"name": "unused", **model}], "agents": [{"name": "a", "model": "m"}]}))
    assert run("check-config", str(tmp_path / "c.json")).returncode == 0
    done = run("serve", "--config", str(tmp_path / "c.json"), "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    assert (done.returncode, done.stderr) == (2, "holdfast: the configuration has 1 fault\n"
                                              "models[0].api_key_env: NO_SUCH_KEY: this variable is empty, or not set\n")


def test_port_that_is_taken_is_a_failure(tmp_path):
    with Gateway() as gateway:
        done = run("serve", "--listen", f"127.0.0.1:{gateway.port}", "--data", str(tmp_path / "data"))
        assert done.returncode == 1
        assert f'port={gateway.port} why="Address already in use: perhaps another gateway runs; --listen ' in done.stderr


def test_without_a_file_it_is_guest_mode_with_the_builtin_agent(tmp_path):
    gateway = Gateway(folder=tmp_path)
    gateway.command = lambda: [BINARY, "serve", "--listen", "127.0.0.1:0", "--data", str(gateway.data)]
    with gateway, Client(gateway) as client:
        assert client.owner.startswith("guest-")
        assert len(client.welcome["agents"]) == 1 and client.welcome["agents"][0]["default"] is True
        task, _ = client.finish("hello")
        assert task["status"] == "completed" and task["output"]


def test_token_command_makes_a_token_that_serves(tmp_path):
    auth = tokens.config(tmp_path)
    with Gateway({"auth": auth}) as gateway:
        done = subprocess.run(
            [BINARY, "token", "--sub", "alice", "--ttl", "1h", "--config", str(gateway.folder / "config.json"),
             "--data", str(gateway.data)], capture_output=True, text=True, check=False, timeout=WAIT_S)
        assert done.returncode == 0, done.stderr
        with Client(gateway, token=done.stdout.strip()) as client:
            assert client.owner == "alice"


def test_ready_line_and_logs_are_apart():
    with Gateway() as gateway:
        assert gateway.printed.empty()  # stdout: that one line
        assert gateway.version


def test_compression_is_on_unless_it_is_turned_off(tmp_path):
    path = tmp_path / "config.json"
    for text, value in (("{}", True), ('{"compression": true}', True), ('{"compression": false}', False)):
        path.write_text(text)
        assert run("check-config", str(path)).returncode == 0
        assert json.loads(run("print-config", str(path)).stdout)["compression"] is value


def exec_agent(*command, **more):
    return {"agents": [{"name": "a", "kind": "exec", "command": list(command), **more}]}


def test_program_that_is_missing_is_named(tmp_path):
    for config, said in ((exec_agent("pyhton3", "x.py"), 'agents[0] (a).command: cannot start "pyhton3": No such file'),
                         (exec_agent("/no/such/program"), 'cannot start "/no/such/program": No such file'),
                         (exec_agent("python3", "nothere.py", cwd=str(tmp_path)), f'there is no "nothere.py" in {tmp_path}')):
        status, text = check(tmp_path, config)
        assert status == 0 and said in text, text
    (tmp_path / "here.py").write_text("")
    status, text = check(tmp_path, exec_agent("python3", "here.py", cwd=str(tmp_path)))
    assert status == 0 and "warning" not in text


def test_serve_warns_of_a_program_that_is_missing():
    with Gateway(exec_agent("pyhton3", default=True)) as gateway:
        gateway.logged("component=agents", "event=program_missing", "pyhton3")
        gateway.logged("event=ready", f"open=http://127.0.0.1:{gateway.port}")


def test_serve_ends_its_start_with_the_url_on_a_terminal(tmp_path):
    serve = Command("serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path), environ=dict(os.environ), terminal=True)
    serve.until("in a browser")
    serve.interrupt()
    out = serve.end()[1]
    port = re.search(r'"listen":"127.0.0.1:(\d+)"', out)[1]
    assert f"Open http://127.0.0.1:{port} in a browser. Ctrl-C stops." in out
    assert out.index("event=ready") < out.index("Open http")
    with Gateway() as gateway:
        gateway.logged("event=ready")
        assert not any("in a browser" in line for line in gateway.log)


COMMANDS = re.findall(r"^  holdfast (\S+)", run("help").stdout, re.M)


def test_each_command_has_help():
    assert {"serve", "check-config", "keys", "doctor", "admin", "chat", "version"} <= set(COMMANDS)
    for command in set(COMMANDS) - {"help"}:
        for asked in ((command, "--help"), (command, "-h"), ("help", command), (command, "word", "--help")):
            done = run(*asked)
            assert done.returncode == 0 and done.stdout.startswith(f"  holdfast {command}"), asked
            assert done.stdout.count("  holdfast ") == done.stdout.count(f"  holdfast {command}")
    for flag in ("help", "--help", "-h"):
        done = run(flag)
        assert done.returncode == 0 and "holdfast serve" in done.stdout and "holdfast chat" in done.stdout
    for asked in (("dance", "--help"), ("help", "dance"), ("dance",), ()):
        done = run(*asked)
        assert done.returncode == 2 and "command" in done.stderr and not done.stdout, asked


def test_help_has_each_option_of_a_synopsis_and_an_option_of_another_command_is_none():
    for command in COMMANDS:
        synopsis, _, about = run(command, "--help").stdout.partition("\n\n")
        listed = set(re.findall(r"^    (--[a-z-]+)", about, re.M))
        assert set(re.findall(r"--[a-z-]+", synopsis)) <= listed, command
        for option in ("--dance", "--sub", "--full"):
            if option not in listed and command not in ("help",):
                done = run(command, option)
                assert done.returncode == 2 and f"{command} has no option {option}" in done.stderr, (command, option)
                assert f"holdfast {command}" in done.stderr and "holdfast help" not in done.stderr
    assert "--listen needs a value" in run("serve", "--listen").stderr


# ---------------------------------------------------------------- keys, code and documents


def keys():
    """Each key of `holdfast keys`, and its default as a text."""
    listed = re.findall(r"^(\S+): .*?\(([^()]*)\)$", run("keys").stdout, re.M)
    return {key: about.partition("default: ")[2] for key, about in listed}


def fields(path, head):
    """The members of the struct that begins with that head."""
    text = (ROOT / path).read_text(encoding="utf-8").split(head, 1)[1].split("}", 1)[0]
    return set(re.findall(r"\b(\w+)(?=[;,])", re.sub(r"/\*.*?\*/", "", text, flags=re.S)))


def test_every_limit_that_the_code_reads_is_a_key_and_the_other_way_round():
    read = fields("core/hub.h", "struct hub_limits {") | fields("gateway/config/config.h", "struct { /* the rim's limits */")
    assert read == {key.removeprefix("limits.") for key in keys() if key.startswith("limits.")} and len(read) > 20


def test_documents_name_every_limit_and_tell_the_defaults_that_it_has():
    known, named = keys(), set()
    groups = {key.partition(".")[0] for key in known if "." in key and "[" not in key} - {"admin"}  # admin.sock is a file
    for path in (ROOT / "README.md", ROOT / "proto/PROTOCOL.md", *sorted((ROOT / "docs").glob("*.md"))):
        told = r"`((?:%s)\.(?!json`)\w+)`(?:\s\(([\d,]+)( [KMG]iB)?\))?" % "|".join(groups)
        for key, number, unit in re.findall(told, path.read_text(encoding="utf-8")):
            assert key in known, f"{path.name} names {key}"
            named.add(key)
            if number:
                unit = "" if key.endswith(unit.strip().lower()) else unit.strip()
                factor = 1024 ** ("KMG".index(unit[0]) + 1) if unit else 1
                assert int(number.replace(",", "")) * factor == int(known[key]), f"{path.name}: {key}"
    assert not {key for key in known if key.startswith("limits.")} - named


def test_no_word_of_the_help_stands_twice():
    for command in ("keys", "help"):
        assert not re.findall(r"\b(\w+) \1\b", run(command).stdout)
