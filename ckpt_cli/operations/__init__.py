"""The log of what `ckpt` changed in stores, by which any change can be taken back."""
