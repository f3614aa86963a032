"""The operator's daily loop: a folder that holds a solver which keeps learning, day by day."""
