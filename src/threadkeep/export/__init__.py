"""Hand-off: captured sessions in the formats of other programs."""
