"""The sidecar's web server: a few pages to read, on this machine unless the settings say otherwise.

Whoever can connect may read them, and nobody can change anything by them: only GET and HEAD are
answered, and no request's body is read. A page in a browser must not get at them by a name of its
own that it points to this machine (DNS rebinding), so on loopback only loopback's names are served.
A page is a function; what is served is a mapping from paths to such functions.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

from ..policies.errors import WactlError

AT_ONCE = 8
"""Connections served at once; those beyond are closed unheard."""
LONGEST = 10.0
"""Seconds that a connection may last, so that silent ones make room."""
POLL = 0.1
"""Seconds between two looks at how long they have lasted, and whether to end."""

log = logging.getLogger("wactl")


class WebError(WactlError):
    """Nothing can be served; the text says where and why."""


@dataclass(frozen=True)
class Page:
    """An answer."""

    body: bytes
    kind: str = "text/plain; charset=utf-8"
    """Its Content-Type."""
    status: HTTPStatus = HTTPStatus.OK
    headers: tuple[tuple[str, str], ...] = ()
    """Further ones, by name and value."""


Route = Callable[[WSGIEnvironment], Page]
"""Makes a page for a request; called in a thread of the server's, so it must only read."""


class Application:
    """The WSGI application: who may ask, how, and which page it is.

    ``local`` refuses requests for any host that is not a name of the loopback interface.
    """

    def __init__(self, routes: Mapping[str, Route], local: bool) -> None:
        self._routes = routes
        self._local = local

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        page = self._page(environ)
        headers = [
            ("Content-Type", page.kind),
            ("Content-Length", str(len(page.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            *page.headers,
        ]
        start(f"{page.status.value} {page.status.phrase}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [page.body]

    def _page(self, environ: WSGIEnvironment) -> Page:
        if self._local and not is_loopback(_host(environ.get("HTTP_HOST", ""))):
            return Page(
                b"only requests for localhost or a loopback address are answered here; "
                b"to serve others too, set metrics_host\n",
                status=HTTPStatus.FORBIDDEN,
            )
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return Page(
                b"only GET and HEAD are answered\n",
                status=HTTPStatus.METHOD_NOT_ALLOWED,
                headers=(("Allow", "GET, HEAD"),),
            )
        route = self._routes.get(environ["PATH_INFO"])
        if route is None:
            there = ", ".join(sorted(self._routes))
            return Page(
                f"there is no such page; there are {there}\n".encode(), status=HTTPStatus.NOT_FOUND
            )
        return route(environ)


class Server(ThreadingMixIn, WSGIServer):
    """Serves from a thread of its own until `close`; ``clock`` gives seconds."""

    daemon_threads = True

    def __init__(
        self, host: str, port: int, application: Application, clock: Callable[[], float]
    ) -> None:
        self._clock = clock
        self._since: dict[socket.socket, float] = {}
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, address = found[0][0], found[0][4]
        super().__init__((str(address[0]), port), _Handler)
        self.set_app(application)
        threading.Thread(target=self.serve_forever, args=(POLL,), name="web", daemon=True).start()

    def close(self) -> None:
        """End the server and every connection."""
        self.shutdown()
        self._end_those_from_before(float("inf"))
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a connection to a thread, if there are not too many."""
        if len(self._since) >= AT_ONCE:
            self.shutdown_request(request)
            return
        self._since[request] = self._clock()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """The end of every connection."""
        self._since.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called after each new connection and each `POLL` without one."""
        self._end_those_from_before(self._clock() - LONGEST)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is nobody's fault; a page that fails is not handled here."""
        log.debug("a web client went away", exc_info=True)

    def _end_those_from_before(self, start: float) -> None:
        for request, since in self._since.copy().items():
            if since < start:
                with suppress(OSError):  # its thread, or the client, was quicker
                    request.shutdown(socket.SHUT_RDWR)


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        """A line a scrape would drown the rest of the sidecar's log."""


def serve(host: str, port: int, routes: Mapping[str, Route], clock: Callable[[], float]) -> Server:
    """Serve the pages at an address. Raises `WebError` when it cannot be had."""
    try:
        return Server(host, port, Application(routes, is_loopback(host)), clock)
    except OSError as error:
        raise WebError(
            f"cannot serve metrics on {host}:{port}: {error.strerror}; "
            "set metrics_host and metrics_port"
        ) from None


def is_loopback(name: str) -> bool:
    """Whether a host's name can only mean this machine.

    >>> [is_loopback(name) for name in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "evil.org")]
    [True, True, True, False, False]
    """
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def _host(header: str) -> str:
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""
