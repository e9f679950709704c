"""Find, cut, hide and search values."""
