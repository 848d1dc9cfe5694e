"""Write the source archive and the wheel to `dist/`, with the build tools of this environment."""

from __future__ import annotations

from pathlib import Path

from setuptools import build_meta


def main() -> None:
    folder = Path("dist")
    folder.mkdir(exist_ok=True)
    names = [build_meta.build_sdist(str(folder)), build_meta.build_wheel(str(folder))]
    for name in names:
        print(folder / name)


if __name__ == "__main__":
    main()
