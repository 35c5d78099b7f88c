"""How the page and its files are served: caching, compression, and what they may do."""

import gzip
import json
import re

import pytest

from gateway import Gateway, run

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "font-src": "'self'",
    "connect-src": "'self'",
    "worker-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "default",
}


def assets(gateway, page="/"):
    """The paths of all files that a page names."""
    body = gateway.http("GET", page)[2].decode()
    return [f"/{path}" for path in re.findall(r'(?:src|href)="\.?/?([^":]+)"', body)]


@pytest.mark.parametrize("page", ["/", "/inspector.html"])
def test_page_and_all_that_it_names_are_served(gateway, page):
    names = assets(gateway, page)
    assert any(name.endswith(".js") for name in names)
    assert any(name.endswith(".css") for name in names)
    types = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    for name in names:
        status, headers, body = gateway.http("GET", name)
        assert status == 200 and len(body) == int(headers["Content-Length"]) > 0, name
        assert headers["Content-Type"].startswith(types[name.rsplit(".", 1)[1]]), name


@pytest.mark.parametrize("page", ["/", "/index.html", "/inspector.html"])
def test_policy_is_strict_and_stands_on_all_of_it(gateway, page):
    for path in [page, *assets(gateway, page)]:
        headers = gateway.http("GET", path)[1]
        policy = dict(each.strip().split(" ", 1) for each in headers["Content-Security-Policy"].split(";"))
        assert policy == POLICY
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_page_has_nothing_that_the_policy_forbids(gateway):
    for page in ("/", "/inspector.html"):
        body = gateway.http("GET", page)[2].decode()
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=|https?://", body)


def test_what_has_its_hash_in_its_name_is_kept_for_ever(gateway):
    hashed = [name for name in assets(gateway) if name.startswith("/assets/")]
    assert hashed
    for name in hashed:
        assert re.search(r"-[\w-]{8}\.\w+$", name)
        assert gateway.http("GET", name)[1]["Cache-Control"] == "public, max-age=31536000, immutable"
    for name in ("/", "/icon.svg"):
        assert gateway.http("GET", name)[1]["Cache-Control"] == "no-cache"


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_page_that_has_not_changed_is_not_sent_again(gateway, coding):
    accept = {"Accept-Encoding": coding}
    etag = gateway.http("GET", "/", headers=accept)[1]["ETag"]
    for known in (etag, f'"other", {etag}'):
        status, headers, body = gateway.http("GET", "/", headers={**accept, "If-None-Match": known})
        assert (status, body) == (304, b"")
        assert headers["ETag"] == etag
    status, _, body = gateway.http("GET", "/", headers={**accept, "If-None-Match": '"other"'})
    assert status == 200 and body


def test_gzip_is_sent_to_who_takes_it(gateway):
    script = next(name for name in assets(gateway) if name.endswith(".js"))
    _, plain_headers, plain = gateway.http("GET", script)
    assert "Content-Encoding" not in plain_headers
    for accept in ("gzip", "br, gzip;q=0.5", "deflate,gzip", "GZIP ; q=1"):
        status, headers, body = gateway.http("GET", script, headers={"Accept-Encoding": accept})
        assert (status, headers["Content-Encoding"]) == (200, "gzip"), accept
        assert headers["Vary"] == "Accept-Encoding"
        assert headers["ETag"] != plain_headers["ETag"]
        assert gzip.decompress(body) == plain
        assert len(body) < len(plain) / 2
    for accept in ("", "br", "identity", "gzip;q=0", "gzip; q=0.0", "gzipped", "x-gzip"):
        headers, body = gateway.http("GET", script, headers={"Accept-Encoding": accept})[1:]
        assert "Content-Encoding" not in headers, accept
        assert body == plain


def test_head_says_what_get_would(gateway):
    for accept in ("identity", "gzip"):
        of_get = gateway.http("GET", "/", headers={"Accept-Encoding": accept})[1]
        status, of_head, body = gateway.http("HEAD", "/", headers={"Accept-Encoding": accept})
        assert (status, body) == (200, b"")
        same = ("ETag", "Content-Type", "Content-Length", "Cache-Control", "Vary")
        assert [of_head[name] for name in same] == [of_get[name] for name in same]


def test_only_files_that_were_built_in_are_there(gateway):
    for path in ("/assets/", "/assets/nothing.js", "/src/main.tsx", "/index.html.gz", "/inspector"):
        assert gateway.http("GET", path)[0] in (400, 404), path


def test_facts_of_the_page_are_the_operators():
    """PROTOCOL.md 7: name and sign-in of the page, for people who have no token."""
    with Gateway() as gateway:
        status, headers, body = gateway.http("GET", "/page.json")
        assert (status, json.loads(body)) == (200, {"name": "Holdfast"})
        assert headers["content-type"] == "application/json" and headers["cache-control"] == "no-store"
    page = {"name": 'R"eef', "sign_in_url": "/login", "sign_out_url": "/logout"}
    with Gateway({"page": page}) as gateway:
        assert json.loads(gateway.http("GET", "/page.json")[2]) == page
        assert gateway.http("GET", "/page.json", headers={"Origin": "http://evil.example"})[0] == 403
        assert gateway.http("GET", "/mark")[0] == 404


SVG = b'<?xml version="1.0"?>\n<!-- a reef --><svg xmlns="http://www.w3.org/2000/svg"/>'


def test_mark_and_colour_of_the_page_are_the_operators(tmp_path):
    """PROTOCOL.md 7: a picture is served under the page's own policy, and revalidated."""
    mark = tmp_path / "mark.svg"
    mark.write_bytes(SVG)
    page = {"name": "Reef", "accent": "#7a1f5c", "mark": str(mark)}
    with Gateway({"page": page}) as gateway:
        assert json.loads(gateway.http("GET", "/page.json")[2]) == page | {"mark": "mark"}
        status, headers, body = gateway.http("GET", "/mark")
        assert (status, headers["Content-Type"], body) == (200, "image/svg+xml", SVG)
        assert "script-src 'self'" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-cache"
        assert gateway.http("GET", "/mark", headers={"If-None-Match": headers["ETag"]})[0] == 304


@pytest.mark.parametrize("page, why", [
    ({"accent": "teal"}, "page.accent: must be a colour such as #0b6e66"),
    ({"accent": "#3fd0bf"}, "page.accent: is too light for white letters on it: the contrast is 1.9, not 4.5"),
    ({"mark": "/no/such/mark.png"}, "page.mark: cannot be read: No such file or directory"),
    ({"mark": "text"}, "page.mark: must be an SVG or a PNG"),
    ({"mark": "large"}, "page.mark: is larger than 256 KiB"),
])
def test_page_that_cannot_be_is_told_by_check_config(tmp_path, page, why):
    (tmp_path / "text").write_text("no picture")
    (tmp_path / "large").write_bytes(SVG + bytes(256 << 10))
    if "mark" in page and not page["mark"].startswith("/"):
        page = {"mark": str(tmp_path / page["mark"])}
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"page": page}))
    checked = run("check-config", str(config))
    assert checked.returncode != 0
    assert why in checked.stdout + checked.stderr
