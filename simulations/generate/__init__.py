"""Made-up traces for the laboratory: steady, drifting, and built to fool a learner."""

from __future__ import annotations
