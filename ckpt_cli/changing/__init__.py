"""Carrying out plans that go batch by batch; what one transaction does is the store's `apply`."""
