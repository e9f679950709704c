"""The storage library of `ckpt`: reads and changes checkpoint stores. It prints nothing."""
