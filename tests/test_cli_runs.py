"""`dree metrics` and `dree plot curves`: what runs are called, and runs of which there is nothing to show."""

from __future__ import annotations

from command_line import invoke
from run_folders import run_with_gaps

LAWS = ["E", "C", "G", "U", "R", "GM"]


def run(path, **settings):
    return run_with_gaps(path, [[9.0] * 6, [2.0] * 6], [0, 1000], LAWS, **settings)


def test_a_table_of_metrics_names_the_base_solver_where_it_is_not_pomo(tmp_path):
    shown = invoke("metrics", *(run(tmp_path / base, base=base) for base in ("pomo", "omni")))
    assert "fine-tuning, CVRP, drift, 1000 epochs" in shown
    assert "fine-tuning (omni), CVRP, drift, 1000 epochs" in shown
