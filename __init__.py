"""wactl: workload-aware control of the KV-cache evictor of a running LLM server.

The repository root is this package: ``policies`` decides which block goes,
``controller`` learns the parameters, ``simulations`` replays traces through both.
"""

from __future__ import annotations

__version__ = "0.1.0"
