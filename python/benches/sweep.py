"""The time of a sweep on one node and on two, of one processor each, on this machine; their tables are compared.

`python benches/sweep.py FILE [--quick] [--write]` prints a line per number of nodes; `--write` puts it into README.md.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import ray
import readme
from laau.sweep import Experiment, Work, run
from ray.cluster_utils import Cluster

FIRST = """
kind = "policies"
horizons = [4]
constructions = ["consecutive"]
policies = ["equal", "opt"]
train = 10
validation = 10
test = 10
"""


def sweep(nodes: int, experiment: Experiment, output: Path) -> float:
    """Seconds from the first cell to the tables; workers are started before, by another sweep."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    for _ in range(nodes - 1):
        cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        cluster.wait_for_nodes()
        first = Experiment("first", FIRST, quick=False, trace=None, seeds=tuple(range(4 * nodes)))
        run([first], output / "first", say=lambda words: None)
        began = time.perf_counter()
        run([experiment], output, say=lambda words: None)
        return time.perf_counter() - began
    finally:
        ray.shutdown()
        cluster.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    experiment = Experiment(given.file.stem, given.file.read_text(), given.quick, None, (0, 1))
    written, times = [], []
    with tempfile.TemporaryDirectory() as folder:
        for nodes in (1, 2):
            output = Path(folder) / str(nodes)
            seconds = sweep(nodes, experiment, output)
            files = sorted((output / experiment.name).glob("*.csv"))
            written.append([(file.name, file.read_bytes()) for file in files])
            times.append(seconds)
            cells = len(Work([experiment], Path(folder) / "none").waiting())
            print(f"nodes: {nodes}, cells: {cells}, seconds: {seconds:.1f}", flush=True)
    assert written[0] == written[1]
    print("the tables are the same, byte for byte")
    if given.write:
        words = f"{cells} cells take {times[0]:.1f} s on one node of one processor and {times[1]:.1f} s on two, on one machine"
        flag = " --quick" if given.quick else ""
        readme.write("sweep", f"Of `experiments/{given.file.name}`{flag} with two seeds, {words}; the tables are the same.")


if __name__ == "__main__":
    main()
