"""What all layouts in SQL tables share, over the dialect of an engine."""
