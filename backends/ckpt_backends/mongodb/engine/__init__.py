"""What all layouts on MongoDB share. Knows no layout."""
