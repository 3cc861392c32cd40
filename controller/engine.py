"""An engine started by ``wactl run``: a child process with the plugin switched on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from ..policies.errors import WactlError
from ..policies.vllm import SWITCH

GRACE = 30.0
"""Seconds an engine gets to end by itself before it is killed."""


class EngineProcess:
    """Starts ``command`` at once, in a session of its own. Raises `WactlError` if it cannot."""

    def __init__(self, command: Sequence[str], run_dir: Path) -> None:
        if shutil.which(command[0]) is None:
            raise WactlError(f"cannot start the engine: no command {command[0]!r} is found")
        environment = {**os.environ, SWITCH: "1", "WACTL_RUN_DIR": str(run_dir)}
        try:
            self._process = subprocess.Popen(command, env=environment, start_new_session=True)
        except OSError as error:
            raise WactlError(f"cannot start the engine: {command[0]}: {error.strerror}") from None
        self._killer: threading.Timer | None = None

    def on_exit(self, action: Callable[[], None]) -> None:
        """Call ``action`` from a thread when the engine has ended."""

        def watch() -> None:
            self._process.wait()
            action()

        threading.Thread(target=watch, name="wactl-engine", daemon=True).start()

    def stop(self) -> None:
        """Ask the engine to end, and end it and its children when it does not."""
        if self._process.poll() is None and self._killer is None:
            self._process.send_signal(signal.SIGTERM)
            self._killer = threading.Timer(GRACE, self._kill)
            self._killer.daemon = True
            self._killer.start()

    def wait(self) -> int:
        """Wait for the end; the exit status, 128 and more after a signal, as in a shell."""
        status = self._process.wait()
        self._kill()
        return status if status >= 0 else 128 - status

    def _kill(self) -> None:
        if self._killer is not None:
            self._killer.cancel()
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # nobody is left, as it should be
