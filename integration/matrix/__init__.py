"""What the cross-read matrix is made of: forms of keys and partitions, a model, scripts."""
