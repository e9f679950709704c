"""What `ckpt doctor` can find: the codes, and the checks that need no store."""
