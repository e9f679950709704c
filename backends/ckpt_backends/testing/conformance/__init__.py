"""The conformance suite: what every layout must promise. See `ckpt_backends.testing.plugin`."""
