"""The words that options of surfaces choose from; loading them loads nothing else."""
