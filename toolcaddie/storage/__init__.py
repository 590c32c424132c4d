"""Where runs, trails, documents and keys are kept: SQL stands here and nowhere else."""
