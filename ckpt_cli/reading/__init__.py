"""Opens stores, finds threads and checkpoints, and reads their states. Never writes."""
