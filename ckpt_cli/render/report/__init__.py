"""The page of `ckpt report`."""
