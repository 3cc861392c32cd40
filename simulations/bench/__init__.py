"""What wactl costs: inside vLLM's scheduler, and in the sidecar."""
