"""What tests of a layout need: the harness of its store. Nothing here is imported by `ckpt`."""
