"""The published figures as data: their shape, and that they hang together as the theory says."""

import math

import pytest

from gradedsparse import GradedSparseError, published
from gradedsparse.mechanisms import count, top_weight

# Half of the last digit, which the rounding of a published figure may hide.
HALF_OF_4TH, HALF_OF_3RD, HALF_OF_2ND = 0.5e-4, 0.5e-3, 0.5e-2

# The published Gaussian and Cauchy states were truncated at a share of 0.1 % each, which two halves pay together.
TRUNCATION = 2 * 0.001


def concentration(per_half):
    return math.sqrt(math.log(1 / published.setup()["delta"]) / (2 * per_half))


COLUMNS = {
    "table1": {"mechanism", "class", "constant"},
    "table2": {"rule", "eta", "w1", "certificate", "cell_certificate"},
    "table3": {"h", "k_1pct", "k_01pct", "decay", "polarization", "dimension", "certificate"},
    "table4": {
        "eta", "k_1pct", "k_01pct", "decay", "count", "polarization", "gate", "dimension", "certificate", "varpi_0",
    },
}  # fmt: skip
LENGTHS = {"ball": {"r"}, "bump": {"r_b"}, "gaussian": {"h"}, "cauchy": {"h", "a"}}


@pytest.mark.parametrize(("name", "rows"), [("table1", 6), ("table2", 8), ("table3", 5), ("table4", 5)])
def test_every_row_has_its_columns(name, rows):
    table = published.table(name)
    assert len(table) == rows
    for row in table:
        assert row.keys() == COLUMNS[name] | LENGTHS.get(row.get("rule"), set())
        if name != "table1":
            assert all(isinstance(entry, (int, float)) and entry > 0 for key, entry in row.items() if key != "rule")


def test_the_setup():
    assert published.setup() == {
        "states": 64_000,
        "pilot_states": 8_000,
        "burn_in": 3_000,
        "delta": 0.05,
        "mean_distance": [0.56, 0.68],
    }
    assert "Kozdoba" in published.source()


def test_table_1_covers_both_classes_and_ours_are_no_weaker():
    rows = {row["mechanism"]: row for row in published.table("table1")}
    assert {row["class"] for row in rows.values()} == {"conservative", "accumulative"}
    for ours in (count(), top_weight()):
        assert rows[ours.name]["class"] == ours.reading
        assert ours.constant <= float(rows[ours.name]["constant"])


@pytest.mark.parametrize("row", published.table("table2"), ids=lambda row: f"{row['rule']}-{row['eta']}")
def test_table_2_certificates_are_transport_plus_concentration_plus_truncation(row):
    beyond = row["certificate"] - row["w1"] - concentration(published.setup()["states"] // 2)
    if row["rule"] in ("ball", "bump"):
        assert beyond == pytest.approx(0, abs=2 * HALF_OF_4TH)
    else:
        assert 0.0016 <= beyond <= TRUNCATION + 2 * HALF_OF_4TH
    assert row["w1"] < row["certificate"] < row["cell_certificate"]


@pytest.mark.parametrize("eta", [1.2, 2.4])
def test_table_2_has_every_rule_at_both_noises_in_the_same_order(eta):
    rows = [row for row in published.table("table2") if row["eta"] == eta]
    assert [row["rule"] for row in rows] == ["ball", "bump", "gaussian", "cauchy"]
    assert [row["w1"] for row in rows] == sorted(row["w1"] for row in rows)


@pytest.mark.parametrize("name", ["table3", "table4"])
def test_decay_rates_follow_from_the_atom_counts(name):
    for row in published.table(name):
        assert row["decay"] == pytest.approx(math.log(10) / (row["k_01pct"] - row["k_1pct"]), abs=HALF_OF_2ND)


@pytest.mark.parametrize("name", ["table3", "table4"])
def test_pilot_certificates_leave_room_for_transport(name):
    floor = concentration(published.setup()["pilot_states"] // 2)
    for row in published.table(name):
        assert row["certificate"] - floor > 0.04
        assert row["polarization"] <= 1


def test_more_states_give_a_smaller_certificate():
    """The same flock at 4,000 and at 32,000 a half."""
    for eta in (1.2, 2.4):
        large = published.row("table2", rule="ball", eta=eta)
        assert large["certificate"] < published.row("table4", eta=eta)["certificate"]
    assert published.row("table2", rule="gaussian", eta=1.2)["certificate"] < (
        published.row("table3", h=0.5)["certificate"] - HALF_OF_3RD
    )


def test_a_caller_cannot_change_the_figures():
    published.table("table4")[0]["eta"] = 99
    published.setup()["delta"] = 99
    assert published.row("table4", eta=1.2)["count"] == 10.7
    assert published.setup()["delta"] == 0.05


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: published.table("table5"), "no published table 'table5': there are table1, table2, table3, table4"),
        (lambda: published.row("table4", eta=1.3), "0 rows of table4 have {'eta': 1.3}; exactly one is wanted"),
        (lambda: published.row("table2", rule="ball"), "2 rows of table2 have {'rule': 'ball'}"),
    ],
)
def test_what_was_not_published_is_refused(call, message):
    with pytest.raises(GradedSparseError) as caught:
        call()
    assert message in str(caught.value)


def test_missing_figures_say_where_to_look(data_folder):
    published._figures.cache_clear()
    with pytest.raises(GradedSparseError, match=r"published\.yaml is missing: set GRADEDSPARSE_DATA"):
        published.source()
