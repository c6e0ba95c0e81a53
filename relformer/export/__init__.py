"""`relformer export`: a trained model as a folder to keep, to send and to load, or as graphs to deploy."""
