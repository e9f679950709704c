"""The checks of `ckpt doctor` that read a store."""
