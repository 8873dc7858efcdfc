"""Load the profiles of this process: the built-in ones, and those in the operator's folder."""

from pathlib import Path

from euterpe.domain.profiles import SUFFIX, InvalidProfiles, Profiles, with_operator_profiles
from euterpe.settings import Settings, SettingsError

MOST_FILES = 500
MOST_BYTES = 65_536  # of one file


def load_profiles(settings: Settings) -> Profiles:
    """Return the profiles by name. Raise `SettingsError` with every error in every file of the folder."""
    folder = settings.profiles
    texts, problems = ({}, []) if folder is None else _read(folder)
    try:
        profiles = with_operator_profiles(texts)
    except InvalidProfiles as invalid:
        problems += invalid.problems
    if problems:
        raise SettingsError([f"EUTERPE_PROFILES: {problem}" for problem in problems])
    return profiles


def _read(folder: Path) -> tuple[dict[str, bytes], list[str]]:
    """Return the text of each profile by file name, and the problems of files that cannot be read."""
    if not folder.is_dir():
        return {}, [f"{folder} is not a folder"]
    texts, problems = dict[str, bytes](), list[str]()
    found = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX))
    if len(found) > MOST_FILES:
        return {}, [f"{folder} has {len(found)} profiles; at most {MOST_FILES} are allowed"]
    for path in found:
        try:
            with path.open("rb") as file:
                texts[path.name] = file.read(MOST_BYTES + 1)
        except OSError as error:
            problems.append(f"{path.name}: cannot be read: {error.strerror}")
            continue
        if len(texts[path.name]) > MOST_BYTES:
            del texts[path.name]
            problems.append(f"{path.name}: has more than {MOST_BYTES} bytes")
    return texts, problems
