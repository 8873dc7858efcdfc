from hypothesis import settings

# A deadline for each example would be an assertion about time, on a machine that others share.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
