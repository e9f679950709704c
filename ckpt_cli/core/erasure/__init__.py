"""What an erasure covers, what it did, and its receipt."""
