"""A trace of 16 million readings, zipped: imported whole by laau, and only read and grouped by polars' streaming reader.

Takes the folder for the trace and the program `laau`. Ours is the whole command, from the start of its process to the episodes on
disk; polars is warm, keeps its results in memory, and cuts no episodes.
"""
import gzip
import os
import subprocess
import sys
import tempfile

import numpy as np
import polars as pl

import protocol

READINGS = 16_000_000
READINGS_PER_MACHINE = 2000
WORK = "import"
PROGRAM = sys.argv[2]
TRACE = os.path.join(protocol.FOLDER, "vm_cpu_readings-file-1-of-1.csv.gz")
LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype="S1")


def draw(path):
    """Writes a trace in the layout of Azure: by time, and at each time a reading of every machine."""
    rng = np.random.default_rng(1)
    machines = READINGS // READINGS_PER_MACHINE
    names = pl.Series("vmid", [row.tobytes().decode() for row in rng.choice(LETTERS, (machines, 22))])
    base = 60.0 * rng.random(machines) ** 3
    with gzip.open(path + ".part", "wb", compresslevel=1) as file:
        for time in range(READINGS_PER_MACHINE):
            average = base + 40.0 * rng.random(machines)
            frame = pl.DataFrame({
                "timestamp": np.full(machines, 300 * time),
                "vmid": names,
                "mincpu": 0.7 * average,
                "maxcpu": 50.0 + 0.5 * average,
                "avgcpu": average,
            })
            file.write(frame.write_csv(include_header=False, float_precision=4).encode())
    os.replace(path + ".part", path)


def scan():
    floats = dict.fromkeys(["mincpu", "maxcpu", "avgcpu"], pl.Float64)
    schema = {"timestamp": pl.Int64, "vmid": pl.String, **floats}
    return pl.scan_csv(TRACE, has_header=False, schema=schema)


def means():
    query = scan().group_by("vmid").agg(pl.col("avgcpu").mean(), pl.len())
    assert query.collect(engine="streaming").height == READINGS // READINGS_PER_MACHINE


def readings():
    query = scan().group_by("vmid").agg(pl.col("timestamp"), pl.col("avgcpu"))
    assert query.collect(engine="streaming").height == READINGS // READINGS_PER_MACHINE


def command(folder):
    return [PROGRAM, "import", "azure-vm", TRACE, "--horizon", "20", "--split", "5000,1000,2000", "-o", os.path.join(folder, "episodes")]


def whole_command():
    with tempfile.TemporaryDirectory(dir=protocol.FOLDER) as folder:
        subprocess.run(command(folder), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def megabytes(arguments):
    """The most memory that a process of its own holds at once."""
    child = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{arguments[0]} exited with {child.returncode}")
    return usage.ru_maxrss / 1024


def main():
    if not os.path.exists(TRACE):
        draw(TRACE)
    with tempfile.TemporaryDirectory(dir=protocol.FOLDER) as folder:
        peak = megabytes(command(folder))
    protocol.case("laau", WORK, "the whole command, episodes written", whole_command, READINGS // 1000, megabytes=peak)
    for variant, run in QUERIES.items():
        peak = megabytes([sys.executable, __file__, protocol.FOLDER, PROGRAM, variant])
        protocol.case("polars", WORK, variant, run, READINGS // 1000, megabytes=peak)
    protocol.serve(polars=pl.__version__)


QUERIES = {"the mean of each machine": means, "the readings of each machine": readings}

if __name__ == "__main__":
    if len(sys.argv) > 3:
        QUERIES[sys.argv[3]]()
    else:
        main()
