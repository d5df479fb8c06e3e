"""The animated flock: its data give the flock back, and its player plays."""

import base64
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from gradedsparse import GradedSparseError
from gradedsparse.animation import LEVELS, animate
from gradedsparse.flock import Parameters, simulate

STEPS = 40


@pytest.fixture(scope="module")
def frames():
    return simulate(Parameters(n_particles=100, box=8.0), seed=1, steps=STEPS, every=1)


@pytest.fixture(scope="module")
def page(frames):
    return animate(frames, alt='arrows & a "box"', caption="a < b", steps_a_second=50).data


def test_the_page_holds_the_flock(frames, page):
    """Headings to half a level; positions, from the start and the headings alone, to what that adds up to."""
    player = json.loads(re.search(r"const flock = (.*);", page)[1])
    levels = np.frombuffer(base64.b64decode(player["headings"]), np.uint8)
    headings = levels.reshape(STEPS + 1, 100) * (2 * np.pi / LEVELS)
    gap = np.abs(np.angle(np.exp(1j * (headings - frames.headings))))
    assert gap.max() <= np.pi / LEVELS + 1e-6
    start = np.frombuffer(base64.b64decode(player["start"]), "<u2").reshape(100, 2) / 65536 * player["box"]
    flown = player["speed"] * np.exp(1j * headings[1:]).sum(axis=0)
    apart = np.abs(start + np.column_stack([flown.real, flown.imag]) - frames.positions[-1]) % player["box"]
    assert np.minimum(apart, player["box"] - apart).max() <= 0.2 * player["speed"]


def test_words_are_escaped_and_nothing_is_loaded(page):
    assert 'aria-label="arrows &amp; a &quot;box&quot;"' in page
    assert "<figcaption>a &lt; b</figcaption>" in page
    assert not re.search(r"https?:|src=|\$\w", page)


def test_skipped_steps_are_refused():
    frames = simulate(Parameters(n_particles=20, box=8.0), seed=1, steps=4, every=2)
    with pytest.raises(GradedSparseError, match="every=1"):
        animate(frames, "alt", "caption")


@pytest.mark.parametrize("reduced", [False, True])
def test_it_plays_by_itself_unless_motion_is_unwanted(reduced, frames, page, tmp_path):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium on PATH")
    file = tmp_path / "page.html"
    file.write_text(f"<!doctype html><body>{page}</body>")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    options += ["--force-prefers-reduced-motion"] * reduced + ["--virtual-time-budget=5000", "--dump-dom"]
    shown = subprocess.run([browser, *options, file.as_uri()], capture_output=True, text=True, timeout=60, check=True)
    step = 0 if reduced else STEPS
    assert f">step {step}, order {frames.order[step]:.2f}<" in shown.stdout
