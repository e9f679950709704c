"""Text on a terminal: safe, styled, measured in cells, folded, in tables."""
