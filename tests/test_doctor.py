"""What the doctor says, and that the lock file covers what the project asks for."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from gradedsparse import doctor

ROOT = Path(__file__).resolve().parents[1]


def pins():
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_every_line_of_the_lock_file_is_an_exact_pin():
    assert [line for line in pins() if not re.fullmatch(r'[\w.-]+==[\w.]+( ; \w+ == "[\w.]+")?', line)] == []


def test_the_lock_file_covers_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    locked = {re.split("==", line)[0].lower().replace("_", "-") for line in pins()}
    names = {re.split(r"[<>=~ ]", item)[0].lower().replace("_", "-") for group in groups for item in group}
    assert sorted(names - locked) == []


def test_a_wrong_version_and_a_missing_package_are_failures(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["numpy"]\n[project.optional-dependencies]\nbook = []\n'
    )
    (tmp_path / "requirements.lock").write_text(
        f"numpy==0.1\nscipy=={metadata.version('scipy')}\nno-such-package==1.0\nother==1 ; python_version == '2.7'\n"
    )
    found = [str(finding) for finding in doctor.environment(tmp_path)]
    assert any(line.startswith("FAIL numpy ") and "has ==0.1" in line and "make" in line for line in found)
    assert any(line.startswith("FAIL no-such-package missing") for line in found)
    assert "OK   1 further packages at their locked versions" in found
    assert not any("other" in line and "FAIL" in line for line in found)


def test_a_missing_browser_is_only_a_note(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = [str(finding) for finding in doctor.machine(tmp_path)]
    assert "FAIL git: install git" in found
    assert any(line.startswith("NOTE browser") for line in found)


def test_the_doctor_runs_before_there_is_an_environment():
    command = [sys.executable, "-I", "-S", str(ROOT / "src" / "gradedsparse" / "doctor.py")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "FAIL environment not installed" in result.stdout
    assert result.stderr == ""
