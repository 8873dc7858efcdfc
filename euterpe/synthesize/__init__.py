"""History that nobody has lived through: realistic, seeded, and as the store itself would have written it."""
