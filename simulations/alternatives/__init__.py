"""Other ways to divide the traffic, and bounds: only for the tables of docs/learning.md."""

from __future__ import annotations
