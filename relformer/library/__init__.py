"""relformer in one's own code and notebooks; `import relformer` offers these names."""
