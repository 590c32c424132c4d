"""Small helpers that know nothing of ours."""
