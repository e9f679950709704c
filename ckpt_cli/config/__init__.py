"""Profiles of stores in configuration files, and which of these files are trusted."""
