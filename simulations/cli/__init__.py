"""The commands of the simulations, one a file; heavy imports stay inside them."""

from __future__ import annotations
