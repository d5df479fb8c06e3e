"""A flock that flies in a page: one block of HTML with its data and a small player in it, no server and no network."""

from __future__ import annotations

import base64
import html
import json
from string import Template

import numpy as np
from IPython.display import HTML
from matplotlib import colormaps
from matplotlib.colors import ListedColormap, to_hex

from gradedsparse.errors import GradedSparseError
from gradedsparse.flock import Flock

LEVELS = 256  # headings are kept in one byte, exact to 0.7 degrees
COLOURS = 64  # around the circle of headings

# The colour of a heading, from -pi to pi: the cyclic map twilight, darkened so that no heading is lost on white.
HEADINGS = ListedColormap(0.8 * colormaps["twilight"](np.arange(COLOURS) / COLOURS)[:, :3], "headings")

_PAGE = Template("""\
<figure class="flock-animation">
<canvas width="960" height="960" role="img" aria-label="$alt"
 style="width:100%;max-width:480px;aspect-ratio:1;background:#fff;border:1px solid #bbb"></canvas>
<div style="display:flex;gap:.6rem;align-items:center;flex-wrap:wrap;max-width:480px">
<button type="button" style="min-width:4.5rem">Play</button>
<input type="range" min="0" max="$last" step="1" value="0" aria-label="step of the flock" style="flex:1;min-width:8rem">
<output style="min-width:10.5rem;font-variant-numeric:tabular-nums"></output>
</div>
<noscript>The animation needs JavaScript.</noscript>
<figcaption>$caption</figcaption>
</figure>
<script>
(() => {
  const figure = document.currentScript.previousElementSibling;
  const canvas = figure.querySelector("canvas"), pen = canvas.getContext("2d");
  const button = figure.querySelector("button"), slider = figure.querySelector("input");
  const label = figure.querySelector("output");
  const flock = $flock;
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const headings = bytes(flock.headings), start = new Uint16Array(bytes(flock.start).buffer);
  const n = flock.n, last = headings.length / n - 1, size = canvas.width / flock.box, arrow = flock.box / 60;
  const turn = 2 * Math.PI / $levels;
  const cosine = Float32Array.from({length: $levels}, (_, k) => Math.cos(k * turn));
  const sine = Float32Array.from({length: $levels}, (_, k) => Math.sin(k * turn));
  const wrap = (x) => x - flock.box * Math.floor(x / flock.box);

  // A particle turns, then flies with its new heading: the headings and the start give every position.
  const xs = new Float32Array((last + 1) * n), ys = new Float32Array((last + 1) * n);
  const orders = new Float32Array(last + 1);
  for (let t = 0; t <= last; t++) {
    let c = 0, s = 0;
    for (let i = 0; i < n; i++) {
      const k = t * n + i, h = headings[k];
      xs[k] = t ? wrap(xs[k - n] + flock.speed * cosine[h]) : start[2 * i] / 65536 * flock.box;
      ys[k] = t ? wrap(ys[k - n] + flock.speed * sine[h]) : start[2 * i + 1] / 65536 * flock.box;
      c += cosine[h]; s += sine[h];
    }
    orders[t] = Math.hypot(c, s) / n;
  }

  let now = 0, playing = false, before = 0;
  const draw = () => {
    const t = Math.floor(now), next = Math.min(t + 1, last), part = (now - t) * flock.speed;
    pen.clearRect(0, 0, canvas.width, canvas.height);
    for (let i = 0; i < n; i++) {
      const h = headings[(part > 0 ? next : t) * n + i], c = cosine[h], s = sine[h];
      const x = wrap(xs[t * n + i] + part * c) * size, y = canvas.height - wrap(ys[t * n + i] + part * s) * size;
      const l = arrow * size;
      pen.fillStyle = flock.colours[Math.floor(h * flock.colours.length / $levels)];
      pen.beginPath();
      pen.moveTo(x + l * c, y - l * s);
      pen.lineTo(x - l * c - 0.5 * l * s, y + l * s - 0.5 * l * c);
      pen.lineTo(x - l * c + 0.5 * l * s, y + l * s + 0.5 * l * c);
      pen.fill();
    }
    slider.value = t;
    label.textContent = "step " + t + ", order " + orders[t].toFixed(2);
  };
  const tick = () => {
    if (!playing) return;
    const time = performance.now();
    now = Math.min(last, now + Math.min(100, time - before) / 1000 * $rate);
    before = time;
    draw();
    if (now < last) setTimeout(tick, 20); else play(false);
  };
  const play = (on) => {
    if (on && now >= last) now = 0;
    playing = on;
    button.textContent = on ? "Pause" : "Play";
    if (on) { before = performance.now(); tick(); }
  };
  button.onclick = () => play(!playing);
  slider.oninput = () => { play(false); now = Number(slider.value); draw(); };
  draw();
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
    new IntersectionObserver(([seen], observer) => {
      if (seen.isIntersecting) { observer.disconnect(); play(true); }
    }).observe(canvas);
  }
})();
</script>
""")


def animate(flock: Flock, alt: str, caption: str, steps_a_second: float = 12) -> HTML:
    """A player with a canvas, a button, a slider and a label with step and order, as HTML that needs nothing else.

    It plays once when it comes into view, unless the reader prefers reduced motion. One byte is kept for a particle and
    step, its heading; the positions follow from the start, and are off by about 0.1 speed after 300 steps. ``flock``
    has been simulated with ``every=1``. Raises GradedSparseError when it has not.
    """
    last = len(flock.times) - 1
    if not np.array_equal(flock.times, np.arange(last + 1)):
        raise GradedSparseError("an animation needs every step of a flock from its start: simulate with every=1")
    headings = np.round(flock.headings * (LEVELS / (2 * np.pi))).astype(int) % LEVELS
    start = np.floor(flock.positions[0] * (65536 / flock.parameters.box)).astype("<u2")
    player = {
        "n": flock.parameters.n_particles,
        "box": flock.parameters.box,
        "speed": flock.parameters.speed,
        "colours": [to_hex(colour) for colour in np.roll(HEADINGS.colors, COLOURS // 2, axis=0)],
        "start": _text(start),
        "headings": _text(headings.astype(np.uint8)),
    }
    return HTML(
        _PAGE.substitute(
            alt=html.escape(alt),
            caption=html.escape(caption),
            last=last,
            levels=LEVELS,
            rate=steps_a_second,
            flock=json.dumps(player),
        )
    )


def _text(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()
