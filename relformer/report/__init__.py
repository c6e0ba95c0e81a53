"""Pages about runs: one self-contained HTML file a run, an index for many; made from the files that runs leave."""
