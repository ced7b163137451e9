"""Experiments on a Ray cluster: `python -m laau.sweep experiments/*.toml --ray ADDRESS`.

The cells of the experiments (data × horizon × policy × seed) run as Ray tasks; where an experiment does not play policies on
the same episodes, a cell is data × horizon × seed. A lost worker's cells are run again elsewhere; finished cells are kept, so
that a sweep that was stopped goes on where it was. The tables are those of `laau experiment`, byte for byte; a node whose
instruction set would change last bits is refused.
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
from typing import Any, NamedTuple

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


class Job(NamedTuple):
    """What one Ray task does: a place of the experiment's grid (data × horizon × seed), or one policy of it."""

    number: int
    """The experiment, from 0."""
    place: int
    """The place, from 0."""
    policy: int | None = None
    """The policy, from 0; `None` for all that is to be done there."""


def run_job(experiment: Experiment, job: Job, machine: str) -> str:
    """One job, on whatever node it has come to."""
    sweep = _open_here(experiment, machine)
    return json.dumps(sweep.run(job.place)) if job.policy is None else sweep.run_piece(job.place, job.policy)


def assemble(experiment: Experiment, place: int, machine: str, played: list[str]) -> str:
    """The rows of a place of the grid, of all its policies."""
    return json.dumps(_open_here(experiment, machine).assemble(place, played))


def _open_here(experiment: Experiment, machine: str) -> Sweep:
    if Sweep.machine() != machine:
        raise Error(
            f"this node is `{Sweep.machine()}`, the sweep was begun on `{machine}`: last bits would differ",
            "run a sweep on nodes of one instruction set and version",
        )
    return experiment.open()


class Kept:
    """Finished work on disk."""

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        self.folder = folder / ".cells" / f"{experiment.name}-{experiment.digest()}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def _file(self, job: Job) -> Path:
        return self.folder / (str(job.place) if job.policy is None else f"{job.place}-{job.policy}")

    def load(self, job: Job) -> str | None:
        try:
            return self._file(job).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None

    def save(self, job: Job, text: str) -> None:
        place = self._file(job)
        beside = place.with_name(place.name + ".part")
        beside.write_text(text, encoding="utf-8")
        beside.replace(place)


class Work:
    """What is finished, and what is to be done, place by place."""

    def __init__(self, experiments: Sequence[Experiment], output: Path) -> None:
        self.stores = [Kept(output, experiment) for experiment in experiments]
        self.rows: dict[Job, str] = {}
        """Finished places."""
        self.played: dict[Job, str] = {}
        """Finished policies."""
        self.jobs: dict[Job, list[Job]] = {}
        """The jobs of every place, in the order of its policies."""
        self.labels: dict[Job, str] = {}
        for number, experiment in enumerate(experiments):
            sweep = experiment.open()
            policies = sweep.pieces
            for place, label in enumerate(sweep.cells):
                whole = Job(number, place)
                self.jobs[whole] = [Job(number, place, policy) for policy in range(len(policies))] or [whole]
                for job in self.jobs[whole]:
                    policy = "" if job.policy is None else f", {policies[job.policy]}"
                    self.labels[job] = f"{experiment.name}: {label}{policy}"
                self._restore(whole)

    def _restore(self, whole: Job) -> None:
        store = self.stores[whole.number]
        rows = store.load(whole)
        if rows is not None:
            self.rows[whole] = rows
            return
        for job in self.jobs[whole]:
            text = None if job == whole else store.load(job)
            if text is not None:
                self.played[job] = text

    def waiting(self) -> list[Job]:
        """Jobs that are not finished, in the order of the tables."""
        places = (whole for whole in self.jobs if whole not in self.rows)
        return [job for whole in places for job in self.jobs[whole] if job not in self.played]

    def finish(self, job: Job, text: str) -> None:
        """Keeps what a job gave."""
        (self.rows if job.policy is None else self.played)[job] = text
        self.stores[job.number].save(job, text)

    def complete(self) -> list[Job]:
        """Places whose policies have all been played, and that have no rows yet."""
        return [whole for whole, jobs in self.jobs.items() if whole not in self.rows and all(job in self.played for job in jobs)]


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

    options = {
        "num_cpus": cpus,
        "max_retries": retries,
        # A cell has as many threads as it was given; the numbers do not depend on it.
        "runtime_env": {"env_vars": {"RAYON_NUM_THREADS": str(max(1, int(cpus)))}},
        "scheduling_strategy": "SPREAD",
    }
    remote, remote_rows = (ray.remote(function).options(**options) for function in (run_job, assemble))
    machine = Sweep.machine()
    work = Work(experiments, output)
    jobs = work.waiting()
    total = len(work.labels)
    done = total - len(jobs)
    if done:
        say(f"{done} of {total} cells are kept from before")
    began = time.monotonic()
    waiting: dict[Any, Job] = {remote.remote(experiments[job.number], job, machine): job for job in jobs}
    asked: set[Job] = set()

    def ask_for_rows() -> None:
        for whole in work.complete():
            if whole not in asked:
                asked.add(whole)
                played = [work.played[job] for job in work.jobs[whole]]
                waiting[remote_rows.remote(experiments[whole.number], whole.place, machine, played)] = whole

    ask_for_rows()
    while waiting:
        ready, _ = ray.wait(list(waiting), num_returns=1)
        for reference in ready:
            job = waiting.pop(reference)
            work.finish(job, ray.get(reference))
            if job in work.labels:
                done += 1
                say(f"[{done}/{total}] {work.labels[job]}, {time.monotonic() - began:.0f} s")
        ask_for_rows()
    for number, experiment in enumerate(experiments):
        rows = [json.loads(work.rows[whole]) for whole in work.jobs if whole.number == number]
        Sweep.save(output / experiment.name, rows)


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
