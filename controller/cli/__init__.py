"""The commands of the sidecar, one a file; heavy imports stay inside them."""

from __future__ import annotations
