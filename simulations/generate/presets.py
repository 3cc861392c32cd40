"""The presets by name. The names alone cost no imports: the command's help shows them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from ...policies.errors import WactlError

if TYPE_CHECKING:
    from ..trace import Trace
    from .plan import Plan
    from .traffic import Traffic

PRESETS = {
    "steady": ("chat", "agents", "api", "batch", "mixed"),
    "drift": ("switch", "slower", "template", "burst"),
    "adversaries": ("flip", "lifespan", "scan", "imitation", "flood"),
}
"""Names of presets by the module that makes them."""


def find(name: str) -> Callable[[Plan], Traffic]:
    """The preset of that name. Raises `WactlError` naming those there are."""
    for module, names in PRESETS.items():
        if name in names:
            made: Callable[[Plan], Traffic] = getattr(
                import_module(f".{module}", __package__), name
            )
            return made
    known = ", ".join(name for names in PRESETS.values() for name in names)
    raise WactlError(f"no preset {name!r}; there are {known}")


def generate(name: str, plan: Plan) -> Trace:
    """A trace of that preset, the same for the same plan. Raises `WactlError`."""
    return find(name)(plan).trace(name)
