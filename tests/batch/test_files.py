import re
from pathlib import Path

import pytest

from euterpe.batch.files import ManifestError, files_of


def names(manifest: str) -> list[str]:
    with files_of(manifest) as files:
        return [file.name for file in files]


def refusal(manifest: str) -> str:
    with pytest.raises(ManifestError) as caught, files_of(manifest):
        pass
    return str(caught.value)


def test_a_folder_and_a_pattern_are_several_files_in_order(folder: Path) -> None:
    for name in ("b.csv", "a.jsonl", "_SUCCESS", ".b.csv.crc", "_temporary.csv", "notes.txt"):
        (folder / name).touch()
    (folder / "deeper.csv").mkdir()
    assert names(".") == ["a.jsonl", "b.csv"]
    assert names("*.csv") == ["b.csv"]
    assert names(f"{folder}/[ab].*") == [f"{folder}/a.jsonl", f"{folder}/b.csv"]


def test_a_file_may_be_named_like_a_pattern(folder: Path) -> None:
    (folder / "a[1].csv").touch()
    assert names("a[1].csv") == ["a[1].csv"]


def test_missing_files_are_reported_in_a_sentence(folder: Path) -> None:
    assert refusal("june.csv") == "june.csv: No such file or directory"
    assert refusal("june").startswith("june: its name must end with one of .csv, ")
    assert refusal("*.csv").startswith("*.csv: there is no file in it that ends with one of .csv, ")
    assert re.match(r".*: there is no file in it", refusal(str(folder)))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["june.csv", "june.jsonl"])
def test_utf_16_is_recognised(folder: Path, name: str, encoding: str) -> None:
    (folder / name).write_text("source.url,output.url\n", encoding=encoding)
    assert refusal(name) == f"{name}: is not UTF-8, it looks like UTF-16: save it as UTF-8"


def test_a_json_array_is_refused(folder: Path) -> None:
    (folder / "june.json").write_text('\ufeff \n[{"profile": "x"}]')
    assert "write each of its objects on a line of its own" in refusal("june.json")
