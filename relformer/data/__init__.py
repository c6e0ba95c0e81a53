"""Data: tasks that generate examples, vocabularies, batches. Knows nothing of the model."""
