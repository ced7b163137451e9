"""What the documentation shows."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def python_blocks(about: str | None = None) -> list[str]:
    """The Python of the README: what needs the service, by the name of its module, or what does not."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    if about is None:
        return [block for block in blocks if "laau.client" not in block]
    return [block for block in blocks if about in block]
