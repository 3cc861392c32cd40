"""The sidecar: stream → reuse → classify → fit → push, one module a step of the loop.

``learner`` runs the steps in order, ``link`` connects them to one engine, ``daemon`` is the
shell around it all. Nothing here imports vLLM or the simulations.
"""

from __future__ import annotations
