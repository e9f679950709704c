"""The storage library of `ckpt`: a store's bytes to the common model. It knows no terminal."""
