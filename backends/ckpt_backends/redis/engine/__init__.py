"""What all layouts on Redis share: connection, listing, changes. Knows no layout."""
