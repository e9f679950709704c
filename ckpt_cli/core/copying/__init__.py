"""Pure parts of copying threads between stores."""
