"""Many jobs from one manifest: checked by Spark as a whole, then submitted one by one, each row once."""
