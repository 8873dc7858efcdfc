from tests.media.clips import clips, sandbox

__all__ = ["clips", "sandbox"]
