"""The tabs of the inspector: what each one reads, and the lines that it shows."""
