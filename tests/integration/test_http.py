"""The HTTP side that a browser or a load balancer sees first (PROTOCOL.md 7)."""

import pytest


def test_page_is_served(gateway):
    status, headers, body = gateway.http("GET", "/")
    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    assert b"<html" in body.lower() or b"<!doctype" in body.lower()


def test_healthz_and_readyz(gateway):
    for path in ("/healthz", "/readyz"):
        assert gateway.http("GET", path)[0] == 200


def test_metrics_from_loopback(gateway, client):
    status, headers, body = gateway.http("GET", "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    assert b"holdfast_connections 1" in body.replace(b"{}", b"")


def test_unknown_path_is_404(gateway):
    for path in ("/nothing", "/v1/nothing", "/../etc/passwd", "/%2e%2e/etc/passwd", "/v1"):
        assert gateway.http("GET", path)[0] in (404, 400), path


@pytest.mark.parametrize("path", ["/healthz", "/"])
def test_wrong_method_is_refused(gateway, path):
    assert gateway.http("POST", path, "x")[0] in (400, 403, 404, 405)


def test_ws_path_without_upgrade_is_no_success(gateway):
    assert gateway.http("GET", "/v1/ws")[0] >= 400
