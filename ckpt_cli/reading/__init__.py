"""From a store to answers: reads what an answer needs and hands it to `ckpt_cli.core`."""
