"""Text as data: reading it, cutting it into tokens, and tasks made of it."""
