from hypothesis import settings

# a property does not become false on a busy machine
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
