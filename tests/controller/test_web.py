"""The web server over real sockets: what it answers, whom it refuses, and that it stays small."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest
from wactl.controller.web import (
    AT_ONCE,
    LONGEST,
    POLL,
    Application,
    Page,
    Server,
    WebError,
    is_loopback,
    serve,
)

ROUTES = {
    "/hello": lambda environ: Page(b"hello\n"),
    "/query": lambda environ: Page(
        environ["QUERY_STRING"].encode(), "text/html", headers=(("A", "b"),)
    ),
    "/broken": lambda environ: Page(b"", status=1 // 0),
}


@pytest.fixture
def clock() -> list[float]:
    """The server's time, to be set."""
    return [0.0]


@pytest.fixture
def server(clock: list[float]) -> Iterator[Server]:
    """A server on loopback."""
    one = serve("127.0.0.1", 0, ROUTES, lambda: clock[0])
    yield one
    one.close()


@pytest.fixture
def request_(server: Server) -> Callable[..., tuple[http.client.HTTPResponse, bytes]]:
    """Asks the server; returns the answer and its body."""

    def ask(
        method: str, path: str, host: str | None = None, body: bytes | None = None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
        headers = {} if host is None else {"Host": host}
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        read = answer.read()
        connection.close()
        return answer, read

    return ask


def ended(one: socket.socket) -> bool:
    """Whether the other side closes the connection without a word, now or soon."""
    one.settimeout(5)
    try:
        return one.recv(1) == b""
    except ConnectionResetError:  # it had not read all that was sent
        return True


def test_a_page_and_its_headers(request_: Callable[..., Any]) -> None:
    """Body, kind, further headers; never kept, and never taken for another kind."""
    answer, body = request_("GET", "/query?a=1")
    assert (answer.status, body) == (200, b"a=1")
    found = dict(answer.getheaders())
    assert found["Content-Type"] == "text/html"
    assert found["A"] == "b"
    assert found["Cache-Control"] == "no-store"
    assert found["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in found


@pytest.mark.parametrize("path", ["/", "/hello/", "/Hello", "/../hello", "/hello//", "/%00"])
def test_other_paths_are_not_there(request_: Callable[..., Any], path: str) -> None:
    """The answer says which are."""
    answer, body = request_("GET", path)
    assert answer.status == 404
    assert body == b"there is no such page; there are /broken, /hello, /query\n"


def test_head_is_get_without_the_body(request_: Callable[..., Any]) -> None:
    """Same status and headers, for pages that are there and others."""
    for path in ("/hello", "/none"):
        got, body = request_("GET", path)
        headed, nothing = request_("HEAD", path)
        assert nothing == b""
        assert headed.status == got.status
        assert int(headed.headers["Content-Length"]) == len(body) > 0


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"])
def test_nothing_can_be_sent(request_: Callable[..., Any], method: str) -> None:
    """Any other method is refused with those there are, whatever the path."""
    for path in ("/hello", "/none"):
        answer, body = request_(method, path, body=b"x=1")
        assert (answer.status, body) == (405, b"only GET and HEAD are answered\n")
        assert answer.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9464", "127.0.0.1", "127.9.9.9:1", "[::1]:9"]
)
def test_loopback_by_any_name(request_: Callable[..., Any], host: str) -> None:
    """Those who come for this machine are served."""
    assert request_("GET", "/hello", host=host)[1] == b"hello\n"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "10.0.0.1", "[::1", ""]
    + ["evil.example#@localhost", "0.0.0.0", "localhost:80@evil.example"],
)
def test_a_foreign_name_that_points_here_is_refused(
    request_: Callable[..., Any], host: str
) -> None:
    """A web page's script gets nothing by a name of the page's own, nor what pages there are."""
    for path in ("/hello", "/none"):
        answer, body = request_("GET", path, host=host)
        assert answer.status == 403
        assert body.startswith(b"only requests for localhost or a loopback address")
        assert body.endswith(b"set metrics_host\n")


def test_who_opens_it_to_others_opens_it_to_all_names() -> None:
    """On an address that is no loopback one, names are the network's business."""
    assert not is_loopback("0.0.0.0")
    with ExitStack() as stack:
        one = serve("0.0.0.0", 0, ROUTES, lambda: 0.0)
        stack.callback(one.close)
        connection = http.client.HTTPConnection("127.0.0.1", one.server_port, timeout=5)
        stack.callback(connection.close)
        connection.request("GET", "/hello", headers={"Host": "gpu-7.example"})
        assert connection.getresponse().read() == b"hello\n"


def test_it_serves_on_the_newer_loopback_too() -> None:
    """An IPv6 address is one like any other."""
    one = serve("::1", 0, ROUTES, lambda: 0.0)
    try:
        connection = http.client.HTTPConnection("::1", one.server_port, timeout=5)
        connection.request("GET", "/hello")
        assert connection.getresponse().read() == b"hello\n"
        connection.close()
    finally:
        one.close()


def test_a_page_that_fails_harms_no_other(
    request_: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Who asked sees no more than that; the log has the error."""
    answer, body = request_("GET", "/broken")
    assert answer.status == 500
    assert b"Zero" not in body
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert request_("GET", "/hello")[1] == b"hello\n"


def test_silent_connections_make_room(
    server: Server, clock: list[float], request_: Callable[..., Any], eventually: Callable[..., Any]
) -> None:
    """So many are served at once; one more is closed unheard until the others' time is over."""
    address = ("127.0.0.1", server.server_port)
    with ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(address)) for _ in range(AT_ONCE)]
        for one in idle:  # drop by drop, so that the server never waits long for the next byte
            one.sendall(b"GET /hello HT")
        extra = stack.enter_context(socket.create_connection(address))
        assert ended(extra)
        clock[0] += LONGEST - 1
        time.sleep(5 * POLL)
        for one in idle:
            one.sendall(b"T")
        clock[0] += 2
        assert all(map(ended, idle))

        def served() -> bool:
            try:
                return request_("GET", "/hello")[1] == b"hello\n"
            except ConnectionError:  # the threads of those that were ended are not yet gone
                return False

        eventually(served)


def test_a_client_in_a_hurry_leaves_no_trace(
    server: Server, request_: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Resets and garbage are answered or not, and nothing of it is in the log."""
    for said in (
        b"",
        b"\r\n\r\n",
        b"\x00\xff" * 50,
        b"GET",
        b"G" * 70_000,
        b"GET / HTTP/9.9\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=5) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close resets
            one.sendall(said)
    assert request_("GET", "/hello")[1] == b"hello\n"
    assert capsys.readouterr() == ("", "")


def test_it_ends_with_connections_open() -> None:
    """Closing waits for nobody, and the port is free again."""
    one = serve("127.0.0.1", 0, ROUTES, lambda: 0.0)
    with socket.create_connection(("127.0.0.1", one.server_port)) as idle:
        idle.sendall(b"GET")
        one.close()
        assert ended(idle)
    serve("127.0.0.1", one.server_port, ROUTES, lambda: 0.0).close()


@pytest.mark.parametrize(("host", "port"), [("192.0.2.1", 1), ("no.such.host.invalid", 1)])
def test_an_address_that_cannot_be_had(host: str, port: int) -> None:
    """One sentence with the address and the settings."""
    with pytest.raises(WebError, match=f"cannot serve metrics on {host}:{port}: .*; set metrics_"):
        serve(host, port, ROUTES, lambda: 0.0)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("path", ["/hello", "/none"])
def test_it_is_a_wsgi_application(method: str, path: str) -> None:
    """As the standard library's own checker sees it."""
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "HTTP_HOST": "localhost",
    }
    environ |= {"QUERY_STRING": "", "SCRIPT_NAME": ""}
    setup_testing_defaults(environ)
    answers = []
    parts = validator(Application(ROUTES, True))(environ, lambda *a: answers.append(a) or print)
    body = b"".join(parts)
    parts.close()
    assert answers[0][0].split()[0] in ("200", "404", "405")
    assert bool(body) == (method != "HEAD")
