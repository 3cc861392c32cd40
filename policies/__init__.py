"""Eviction: the score, the evictor core, the parameter set and the wire.

Imported inside the engine process, so nothing here may import more than msgspec, pyzmq,
numpy and numba, and importing this package itself costs nothing.
"""
