"""Where runs are carried out."""
