"""Text corpora of the user's own: how files are found, opened, decoded and paired, and what is refused on the way."""
