"""A zipped trace of 16 million readings: imported whole by laau, only read and grouped by polars' streaming reader.

Takes the folder for the trace and the program `laau`. Ours is the whole command, from the start of its process to the episodes on
disk; polars is warm, keeps what it finds in memory, and cuts no episodes.
"""
import gzip
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import polars as pl

import protocol

READINGS = 16_000_000
TIMES = 2000
MACHINES = READINGS // TIMES
SHARDS = [10, 1]
PROGRAM = sys.argv[2]
LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype="S1")


def path(shards, shard):
    return os.path.join(protocol.FOLDER, f"trace-{shards}", f"vm_cpu_readings-file-{shard + 1}-of-{shards}.csv.gz")


def files(shards):
    return [path(shards, shard) for shard in range(shards)]


def draw(shards):
    """Writes a trace in the layout of Azure: by time, and at each time a reading of every machine."""
    rng = np.random.default_rng(1)
    names = pl.Series("vmid", [row.tobytes().decode() for row in rng.choice(LETTERS, (MACHINES, 22))])
    base = 60.0 * rng.random(MACHINES) ** 3
    folder = os.path.dirname(path(shards, 0))
    if os.path.exists(folder):
        return
    with tempfile.TemporaryDirectory(dir=protocol.FOLDER) as unfinished:
        for shard, name in enumerate(files(shards)):
            with gzip.open(os.path.join(unfinished, os.path.basename(name)), "wb", compresslevel=1) as file:
                for time in range(shard * TIMES // shards, (shard + 1) * TIMES // shards):
                    average = base + 40.0 * rng.random(MACHINES)
                    readings = {"mincpu": 0.7 * average, "maxcpu": 50.0 + 0.5 * average, "avgcpu": average}
                    frame = pl.DataFrame({"timestamp": np.full(MACHINES, 300 * time), "vmid": names, **readings})
                    file.write(frame.write_csv(include_header=False, float_precision=4).encode())
        shutil.copytree(unfinished, folder)


def group(shards, *found):
    floats = dict.fromkeys(["mincpu", "maxcpu", "avgcpu"], pl.Float64)
    schema = {"timestamp": pl.Int64, "vmid": pl.String, **floats}
    trace = pl.scan_csv(files(shards), has_header=False, schema=schema)
    groups = trace.group_by("vmid").agg(*found).collect(engine="streaming")
    if groups.height != MACHINES:
        raise RuntimeError(f"{groups.height} machines of {MACHINES}")


QUERIES = {
    "the mean of each machine": lambda shards: group(shards, pl.col("avgcpu").mean(), pl.len()),
    "the readings of each machine": lambda shards: group(shards, pl.col("timestamp"), pl.col("avgcpu")),
}


def command(shards, folder):
    cut = ["--horizon", "20", "--split", "5000,1000,2000", "-o", os.path.join(folder, "episodes")]
    return [PROGRAM, "import", "azure-vm", *files(shards), *cut]


def whole_command(shards):
    with tempfile.TemporaryDirectory(dir=protocol.FOLDER) as folder:
        subprocess.run(command(shards, folder), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def megabytes(arguments):
    """The most memory that a process holds at once, started by a small one: it begins with as much as whoever starts it."""
    script = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
"""
    return float(subprocess.check_output([sys.executable, "-c", script, *arguments]))


def main():
    for shards in SHARDS:
        draw(shards)
        work, unit = f"import/files={shards}", READINGS // 1000
        with tempfile.TemporaryDirectory(dir=protocol.FOLDER) as folder:
            peak = megabytes(command(shards, folder))
        protocol.case("laau", work, "the whole command", lambda shards=shards: whole_command(shards), unit, megabytes=peak)
        for variant, query in QUERIES.items():
            peak = megabytes([sys.executable, __file__, protocol.FOLDER, PROGRAM, variant, str(shards)])
            protocol.case("polars", work, variant, lambda query=query, shards=shards: query(shards), unit, megabytes=peak)
    protocol.serve(polars=pl.__version__)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        QUERIES[sys.argv[3]](int(sys.argv[4]))
    else:
        main()
