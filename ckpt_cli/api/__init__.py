"""The Python interface: handles that read a store, its threads and their checkpoints.

The commands stand on it, so that a script and a command get the same answer. It only reads.
`ckpt_cli` exports what is public.
"""
