"""How the page looks with half an hour's traffic: readable in light and dark, and on a phone.

``WACTL_PICTURES=FOLDER`` keeps what it is looked at with: docs/status-page.png, and the status that
docs/status.md shows.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from wactl.controller.daemon import Daemon
from wactl.controller.shown import render
from wactl.controller.status import Request, ask

CONTRAST = """() => {
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (color) => {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = color;
    paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => {
    const [r, g, b] = color.slice(0, 3).map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = rgb(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    throw new Error("no ground");
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const color = rgb(element instanceof SVGElement ? style.fill : style.color);
    const [high, low] = [light(color), light(ground(element))].sort((a, b) => b - a);
    found.push([(high + 0.05) / (low + 0.05), walker.currentNode.data.trim()]);
  }
  return found;
}"""
"""Contrast of every text that shows to what is behind it, as WCAG 2 defines it."""

LINES = """() => [...document.querySelectorAll("svg path")].map((path) => {
  const box = path.getBBox();
  return [path.getAttribute("class"), box.width, box.height];
})"""


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where pictures go."""
    return Path(os.environ.get("WACTL_PICTURES", tmp_path))


def test_light_dark_and_on_a_phone(
    played: Callable[..., Any],
    daemon: Callable[..., Daemon],
    two_ports: Callable[[], int],
    eventually: Callable[..., Any],
    visit: Callable[..., Any],
    said: list[str],
    run_dir: Path,
    pictures: Path,
) -> None:
    """Curves are drawn, every text can be read, and nothing is wider than the screen."""
    port, engine = two_ports(), played("mixed", 1800.0)
    daemon(metrics_port=port, mode="enforce", refit_seconds=30.0, ttl_seconds=600.0)
    eventually(lambda: ask(run_dir, Request()).engines)
    engine.play()
    with (pictures / "status.txt").open("w") as file:
        Console(file=file, width=80).print(render(ask(run_dir, Request())))
    grounds = []
    for name, scheme, width in (
        ("status-page", "light", 1100),
        ("status-page-dark", "dark", 1100),
        ("status-page-phone", "light", 360),
        ("status-page-phone-dark", "dark", 360),
    ):
        page = visit(port, scheme, width, is_mobile=width < 500)
        page.wait_for_selector("svg.time path.engine")
        page.wait_for_selector(".category.part svg.past path.p")
        page.screenshot(path=pictures / f"{name}.png", full_page=width < 500)
        contrasts = page.evaluate(CONTRAST)
        assert len(contrasts) > 100
        assert [one for one in contrasts if one[0] < 4.5] == []
        lines = page.evaluate(LINES)
        assert {kind for kind, *_ in lines} == {"engine", "chosen", "lru", "law", "p"}
        assert all(across > 100 and high > 3 for kind, across, high in lines if kind != "p")
        assert max(across for kind, across, _ in lines if kind == "p") > 100
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.context.close()
    assert grounds[0] == grounds[2] != grounds[1] == grounds[3]
    assert said == []
