"""Other values for names of a module, for the time of an experiment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def swapped(module: ModuleType, **values: Any) -> Iterator[None]:
    """Other values for names of a module, for as long as it lasts.

    What only an experiment changes is no setting of the product. Names that compiled code uses
    keep their values there.
    """
    before = {name: getattr(module, name) for name in values}
    for name, value in values.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)
