"""The status page in a real Chromium, on a live sidecar: what it shows, and what it does then."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from wactl.controller.daemon import Daemon
from wactl.controller.status import Request, ask

NUMBER = re.compile(r"^\d+\.\d %$")
SOON = 20_000
"""Milliseconds that anything may take."""


@pytest.fixture
def known(
    run_dir: Path, engine: Callable[..., Any], eventually: Callable[..., Any]
) -> Callable[[], Any]:
    """An engine of whose traffic the sidecar has learned laws."""

    def start() -> Any:
        one = engine()
        eventually(
            lambda: (e := ask(run_dir, Request()).engines) and e[0].categories[0].p is not None,
            one.traffic,
        )
        return one

    return start


def requests(page: Page) -> int:
    """How many requests the page tells of."""
    found = re.search(r"(\d+) requests", page.locator(".state").inner_text())
    assert found
    return int(found[1])


def test_it_shows_a_live_engine_and_follows_it(
    run_dir: Path,
    known: Callable[[], Any],
    daemon: Callable[..., Daemon],
    two_ports: Callable[[], int],
    eventually: Callable[..., Any],
    visit: Callable[..., Any],
    said: list[str],
) -> None:
    """Hit ratio, categories and changes are the status's; more traffic shows by itself."""
    port = two_ports()
    daemon(metrics_port=port)
    one = known()
    page = visit(port)
    expect(page.locator("h2")).to_have_text("Engine 0", timeout=SOON)
    expect(page.locator(".hits")).to_have_text(NUMBER)
    expect(page.locator("p.lru")).to_have_text(NUMBER)
    expect(page.locator("#about")).to_contain_text("mode shadow")
    expect(page.locator(".gate")).to_contain_text("Mode enforce would run")
    expect(page.locator(".category h4").first).to_have_text("other")
    expect(page.locator(".category dd.p").first).to_have_text(NUMBER)
    assert page.locator(".category").first.locator("svg.reuse rect").count() == 16
    expect(page.locator(".changes")).to_contain_text("shadow: at the start")
    assert page.locator("#problem").is_hidden()
    before = requests(page)
    eventually(lambda: requests(page) > before, one.traffic)
    ask(run_dir, Request("enforce"))
    expect(page.locator("#about")).to_contain_text("mode enforce", timeout=SOON)
    expect(page.locator(".changes")).to_contain_text(
        "enforce: as asked, shadow until now", timeout=SOON
    )
    assert said == []


def test_who_cannot_see_it_is_told(
    known: Callable[[], Any],
    daemon: Callable[..., Daemon],
    two_ports: Callable[[], int],
    visit: Callable[..., Any],
) -> None:
    """Language, title, and for each picture what is in it."""
    port = two_ports()
    daemon(metrics_port=port)
    known()
    page = visit(port)
    expect(page.locator(".category").first).to_be_visible(timeout=SOON)
    assert page.title() == "wactl status"
    assert page.locator("html").get_attribute("lang") == "en"
    pictures = page.locator("svg").all()
    assert len(pictures) >= 3
    for picture in pictures:
        assert picture.get_attribute("role") == "img"
        assert len(picture.get_attribute("aria-label") or "") > 10
    label = page.locator("svg.reuse").first.get_attribute("aria-label")
    assert label is not None
    assert re.fullmatch(
        r"other: \d+\.\d % of the blocks are used again, after .+ in the mean", label
    )


def test_names_stay_text(
    known: Callable[[], Any],
    daemon: Callable[..., Daemon],
    two_ports: Callable[[], int],
    visit: Callable[..., Any],
    said: list[str],
    tmp_path: Path,
) -> None:
    """A category called like markup is shown as it is called, and does nothing."""
    name = "<img src=x onerror=alert(1)>"
    rules = tmp_path / "rules.yaml"
    rules.write_text(f"rules:\n  - category: '{name}'\n")
    port = two_ports()
    daemon(metrics_port=port, rules=rules)
    known()
    page = visit(port)
    expect(page.locator(".category h4").first).to_have_text(name, timeout=SOON)
    assert page.locator("img").count() == 0
    assert said == []


def test_without_an_engine_it_says_how_to_start_one(
    daemon: Callable[..., Daemon],
    two_ports: Callable[[], int],
    visit: Callable[..., Any],
    said: list[str],
    run_dir: Path,
) -> None:
    """One sentence, and no empty boxes."""
    port = two_ports()
    daemon(metrics_port=port)
    page = visit(port)
    sentence = f"No engine is in {run_dir}; start one with WACTL=1."
    expect(page.locator("#problem")).to_have_text(sentence, timeout=SOON)
    assert page.locator("section").count() == 0
    assert said == []


def test_when_the_sidecar_stops_it_says_so_and_asks_less_and_less(
    known: Callable[[], Any],
    daemon: Callable[..., Daemon],
    two_ports: Callable[[], int],
    eventually: Callable[..., Any],
    visit: Callable[..., Any],
    said: list[str],
    run_dir: Path,
) -> None:
    """What was known stays, and when a sidecar is there again the page goes on by itself."""
    port = two_ports()
    first = daemon(metrics_port=port)
    known()
    page = visit(port)
    page.clock.install()
    expect(page.locator(".category").first).to_be_visible(timeout=SOON)
    first.stopping = True
    eventually(lambda: not (run_dir / "sidecar").exists())
    problem = page.locator("#problem")

    def pass_time() -> None:
        page.clock.run_for(1000)

    eventually(problem.is_visible, pass_time)
    assert problem.inner_text() == (
        "The sidecar does not answer; what is below was so when it last did. "
        "If it was stopped, start it with `wactl run`."
    )
    for _ in range(300):
        page.clock.run_for(1000)
    assert {"net::ERR_CONNECTION_REFUSED" in text for text in said} == {True}
    assert 3 <= len(said) <= 12  # the browser's own words, one a question: of 150 without patience
    expect(page.locator(".category").first).to_be_visible()
    daemon(metrics_port=port)
    eventually(problem.is_hidden, pass_time)
