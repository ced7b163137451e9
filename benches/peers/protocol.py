"""What a worker says and hears. Every line is a JSON object.

Out: {"case": {...}} per measurable case, {"strict": {...}} per set of episodes, {"failed": {...}} for what cannot be done,
     then {"ready": {"versions": {...}}}.
In:  {"run": case, "seconds": s}; answered by {"samples": [seconds per unit, ...]}.
"""
import json
import os
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Solvers print what they like; the protocol keeps standard output to itself.
_out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

_cases = []
FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."


def say(message):
    _out.write(json.dumps(message) + "\n")
    _out.flush()


def instances():
    with open(os.path.join(FOLDER, "instances.json")) as file:
        return json.load(file)


def case(peer, work, variant, run, units=1, precision="f64", **facts):
    """Announces a case: `run()` does `units` units of the work. It is run once before it is announced."""
    run()
    say({"case": dict(id=len(_cases), peer=peer, work=work, variant=variant, precision=precision, **facts)})
    _cases.append((run, units))


def failed(peer, work, variant, reason):
    reason = " ".join(str(reason).split())[:200] or type(reason).__name__
    say({"failed": dict(peer=peer, work=work, variant=variant, reason=reason)})


def attempt(peer, work, variant, make):
    """`make()` announces a case; whatever it throws is told instead."""
    try:
        make()
    except Exception as error:
        failed(peer, work, variant, error)


def error(found, true):
    import numpy as np
    found, true = np.asarray(found, float).ravel(), np.asarray(true, float).ravel()
    return float(np.max(np.abs(found - true) / np.maximum(1.0, np.abs(true))))


def serve(**versions):
    say({"ready": {"versions": versions}})
    for line in sys.stdin:
        request = json.loads(line)
        run, units = _cases[request["run"]]
        run()
        samples, end = [], time.perf_counter() + request["seconds"]
        while len(samples) < 5000:
            start = time.perf_counter()
            run()
            now = time.perf_counter()
            samples.append((now - start) / units)
            if now > end:
                break
        say({"samples": samples})
