"""Figures that a bench writes into README.md, between the two lines that carry its name."""

from __future__ import annotations

from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def write(name: str, text: str) -> None:
    """Replaces what stands there."""
    begin, end = f"<!-- {name}: written by benches/{name}.py --write -->\n", f"<!-- end of {name} -->\n"
    whole = README.read_text(encoding="utf-8")
    before, found, rest = whole.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"README.md has no place for {name}: {begin.strip()} … {end.strip()}")
    README.write_text(f"{before}{begin}\n{text.strip()}\n\n{end}{after}", encoding="utf-8")
    print(f"README.md has the figures of {name}")
