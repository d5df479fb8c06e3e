"""Fixtures for all tests; the builders of states are in builders.py."""

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("repeatable")


@pytest.fixture
def rng():
    return np.random.default_rng(20261012)


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    """An empty data folder that the library takes for its own."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("GRADEDSPARSE_DATA", str(folder))
    return folder
