"""Reference costs, evaluation and metrics."""
