"""Figures of papers beside ours: `figures.yaml` holds theirs, run directories hold ours, and nothing is typed twice."""
