"""Read from a store what an answer needs, and pass it to `ckpt_cli.core`."""
