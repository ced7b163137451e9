"""Experiments on a Ray cluster: `python -m laau.sweep experiments/*.toml --ray ADDRESS`.

The cells of the experiments (data × horizon × seed, with all policies) run as Ray tasks. A lost worker's cells are run
again elsewhere; finished cells are kept, so that a sweep that was stopped goes on where it was. The tables are those of
`laau experiment`, byte for byte; a node whose instruction set would change last bits is refused.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ._errors import Error
from ._laau import Sweep


@dataclass(frozen=True)
class Experiment:
    """An experiment's file and what `laau experiment` would be told beside it."""

    name: str
    text: str
    quick: bool
    trace: str | None
    seeds: tuple[int, ...]
    data: str | None = None

    def open(self) -> Sweep:
        """The experiment on this machine, which need not have the file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{self.name}.toml"
            path.write_text(self.text)
            return Sweep(path, self.quick, self.trace, list(self.seeds), self.data)

    def digest(self) -> str:
        """What finished cells are known by: anything else gives others."""
        known = json.dumps([asdict(self), Sweep.machine()])
        return hashlib.sha256(known.encode()).hexdigest()[:16]


def run_cell(experiment: Experiment, cell: int, machine: str) -> dict[str, str]:
    """One cell, on whatever node it has come to."""
    if Sweep.machine() != machine:
        raise Error(
            f"this node is `{Sweep.machine()}`, the sweep was begun on `{machine}`: last bits would differ",
            "run a sweep on nodes of one instruction set and version",
        )
    return experiment.open().run(cell)


class Kept:
    """Finished cells on disk."""

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        self.folder = folder / ".cells" / f"{experiment.name}-{experiment.digest()}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def load(self, cell: int) -> dict[str, str] | None:
        try:
            kept = json.loads((self.folder / f"{cell}.json").read_text())
        except (OSError, ValueError):
            return None
        parts: dict[str, str] | None = kept if isinstance(kept, dict) else None
        return parts

    def save(self, cell: int, parts: dict[str, str]) -> None:
        place = self.folder / f"{cell}.json"
        beside = place.with_suffix(".part")
        beside.write_text(json.dumps(parts))
        beside.replace(place)


def run(
    experiments: Sequence[Experiment],
    output: Path,
    *,
    cpus: float = 1.0,
    retries: int = 5,
    say: Any = print,
) -> None:
    """Runs all cells that are not finished on the cluster that Ray is connected to, and writes the tables."""
    import ray

    remote = ray.remote(run_cell).options(
        num_cpus=cpus,
        max_retries=retries,
        # A cell has as many threads as it was given; the numbers do not depend on it.
        runtime_env={"env_vars": {"RAYON_NUM_THREADS": str(max(1, int(cpus)))}},
        scheduling_strategy="SPREAD",
    )
    machine = Sweep.machine()
    results: dict[tuple[int, int], dict[str, str]] = {}
    waiting: dict[Any, tuple[int, int]] = {}
    labels: dict[tuple[int, int], str] = {}
    stores = [Kept(output, experiment) for experiment in experiments]
    for number, experiment in enumerate(experiments):
        for cell, label in enumerate(experiment.open().cells):
            key = number, cell
            labels[key] = f"{experiment.name}: {label}"
            kept = stores[number].load(cell)
            if kept is not None:
                results[key] = kept
            else:
                waiting[remote.remote(experiment, cell, machine)] = key
    if results:
        say(f"{len(results)} of {len(labels)} cells are kept from before")
    began = time.monotonic()
    while waiting:
        done, _ = ray.wait(list(waiting), num_returns=1)
        for reference in done:
            key = waiting.pop(reference)
            results[key] = ray.get(reference)
            stores[key[0]].save(key[1], results[key])
            say(f"[{len(results)}/{len(labels)}] {labels[key]}, {time.monotonic() - began:.0f} s")
    for number, experiment in enumerate(experiments):
        cells = sorted(key for key in results if key[0] == number)
        Sweep.save(output / experiment.name, [results[key] for key in cells])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m laau.sweep", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("files", nargs="+", type=Path, help="the experiments, in TOML")
    parser.add_argument("--ray", metavar="ADDRESS", help="the cluster [default: a local one]")
    parser.add_argument("-o", "--output", type=Path, default=Path("tables"), help="a folder; a folder per experiment in it")
    parser.add_argument("--seeds", default="0,1,2", help="seeds of data, weights and shuffles [default: 0,1,2]")
    parser.add_argument("--quick", action="store_true", help="the small sizes of the files' sections [quick]")
    parser.add_argument("--trace", metavar="PATH", help="Azure VM readings, at the same path on every node")
    parser.add_argument("--data", metavar="DIR", help="a folder of real data, at the same path on every node")
    parser.add_argument("--cpus-per-cell", type=float, default=1.0)
    parser.add_argument("--retries", type=int, default=5, help="how often a lost cell is run again [default: 5]")
    given = parser.parse_args(arguments)
    try:
        seeds = tuple(int(seed) for seed in given.seeds.split(","))
        experiments = [
            Experiment(file.stem, file.read_text(), given.quick, given.trace, seeds, given.data) for file in given.files
        ]
        for experiment in experiments:
            experiment.open()
        import ray

        ray.init(address=given.ray, ignore_reinit_error=True, log_to_driver=False)
        run(experiments, given.output, cpus=given.cpus_per_cell, retries=given.retries)
    except (Error, OSError, ValueError) as error:
        hint = getattr(error, "hint", "see python -m laau.sweep --help")
        print(f"error: {error}\nhint: {hint}", file=sys.stderr)
        return 1
    except ImportError:
        print("error: Ray is not installed\nhint: pip install 'laau[ray]'", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
