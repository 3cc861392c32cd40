"""The only place that touches vLLM: the plugin that puts wactl's queue into its scheduler.

vLLM calls `register` in each of its processes. Unless ``WACTL=1`` is set this reads one
environment variable and returns: nothing is imported, no vLLM object is touched.
"""

from __future__ import annotations

import os

SWITCH = "WACTL"
"""Environment variable that switches the plugin on, with the value 1."""


def register() -> None:
    """Entry point of ``vllm.general_plugins``; may be called any number of times."""
    if os.environ.get(SWITCH) == "1":
        from .install import install

        install()
