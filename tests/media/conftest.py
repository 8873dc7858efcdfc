from tests.media.clips import clips, own_sandbox, sandbox

__all__ = ["clips", "own_sandbox", "sandbox"]
