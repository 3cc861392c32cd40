"""What the sidecar serves: the status page, metrics for Prometheus, and whether it is well."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from wsgiref.types import WSGIEnvironment

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from .history import Past
from .metrics import StatusCollector
from .status import Status, as_json
from .web import Page, Route

STUCK = 5.0
"""Seconds without a cycle after which the sidecar is not well."""

FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/script.js": ("script.js", "text/javascript; charset=utf-8"),
}
"""The status page, by path."""

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a browser may load for the page: its own files, and nothing from elsewhere."""


def pages(
    status: Callable[[], Status],
    past: Callable[[], tuple[Past, ...]],
    idle: Callable[[], float],
) -> dict[str, Route]:
    """The pages by their paths, of the latest status, what was before, and the seconds since the
    last cycle."""
    registry = CollectorRegistry()
    registry.register(StatusCollector(status))
    ProcessCollector(registry=registry)

    def metrics(environ: WSGIEnvironment) -> Page:
        encode, kind = choose_encoder(environ.get("HTTP_ACCEPT", ""))
        return Page(encode(registry), kind)

    def latest(environ: WSGIEnvironment) -> Page:
        return Page(as_json(status()).encode() + b"\n", "application/json")

    def history(environ: WSGIEnvironment) -> Page:
        return Page(msgspec.json.encode(past()) + b"\n", "application/json")

    def health(environ: WSGIEnvironment) -> Page:
        seconds = idle()
        if seconds <= STUCK:
            return Page(b"ok\n")
        text = f"the sidecar's loop has not cycled for {seconds:.0f} s; restart the sidecar\n"
        return Page(text.encode(), status=HTTPStatus.SERVICE_UNAVAILABLE)

    made = {"/metrics": metrics, "/status": latest, "/history": history, "/healthz": health}
    return {**made, **{path: _file(*file) for path, file in FILES.items()}}


def _file(name: str, kind: str) -> Route:
    headers = (("Content-Security-Policy", POLICY), ("Referrer-Policy", "no-referrer"))
    page = Page((Path(__file__).parent / "page" / name).read_bytes(), kind, headers=headers)
    return lambda environ: page
