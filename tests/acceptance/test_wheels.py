"""The two packages as a user installs them: wheels, in a virtual environment that has nothing else.

The libraries come from the environment of the tests, so nothing is downloaded.
"""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
#: What the wheels are made of. In the checkout itself building would leave directories behind.
PARTS = ("booksan", "client", "hosts", "pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("wheels")
    for name in PARTS:
        if (ROOT / name).is_dir():
            skip = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
            shutil.copytree(ROOT / name, root / "source" / name, ignore=skip)
        else:
            shutil.copy(ROOT / name, root / "source" / name)
    for source in ("source", "source/client"):
        pip("wheel", "--no-deps", "--no-build-isolation", "-w", root, root / source)
    return root


def pip(*words: str | Path, python: Path | None = None) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    where: list[str | Path] = ["--python", python] if python else []
    subprocess.run([*command, *where, *words], check=True, timeout=120)


class Environment:
    def __init__(self, root: Path) -> None:
        venv.create(root, with_pip=False)
        self.bin = root / "bin"

    def install(self, wheels: Path, name: str) -> None:
        (wheel,) = wheels.glob(f"{name.replace('-', '_')}-[0-9]*.whl")
        pip("install", "--no-deps", "--no-index", wheel, python=self.bin / "python")

    def remove(self, name: str) -> None:
        pip("uninstall", "--yes", name, python=self.bin / "python")

    def run(self, *words: str | Path) -> str:
        """A command of this environment, with the libraries of the other one."""
        name, *more = words
        # The other one's own booksan is not there: it comes by a .pth, which is read in places of
        # its own only.
        libraries = next(path for path in sys.path if path.endswith("site-packages"))
        done = subprocess.run(
            [self.bin / name, *more],
            env={**os.environ, "PYTHONPATH": libraries, "XDG_STATE_HOME": str(self.bin.parent)},
            cwd=self.bin.parent,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def modules_of(self, name: str) -> str:
        """Where the client's modules come from when this command runs."""
        code = f"""import sys, runpy
sys.argv = ["x", "--help"]
try: runpy.run_path("bin/{name}", run_name="__main__")
except SystemExit: print(sys.modules["booksan_client"].__file__)"""
        return self.run("python", "-c", code).splitlines()[-1]


def test_no_file_belongs_to_both_packages(wheels: Path) -> None:
    """So neither the order in which they are installed nor that of removal matters."""
    one, other = (set(ZipFile(path).namelist()) for path in wheels.glob("*.whl"))
    assert not one & other


@pytest.mark.parametrize("name", ["booksan", "booksan_client"])
def test_each_package_says_that_it_is_typed_and_how_it_is_licensed(wheels: Path, name: str) -> None:
    (wheel,) = wheels.glob(f"{name}-[0-9]*.whl")
    names = ZipFile(wheel).namelist()
    assert any(one.endswith("booksan_client/py.typed") for one in names)
    assert ("booksan/py.typed" in names) == (name == "booksan")
    assert any(one.endswith("/licenses/LICENSE") for one in names)


def test_either_package_outlives_the_other(wheels: Path, tmp_path: Path) -> None:
    here = Environment(tmp_path / "venv")
    here.install(wheels, "booksan")
    here.install(wheels, "booksan-client")
    assert "booksan_client_alone" in here.modules_of("booksan-client")
    assert "booksan_client_alone" not in here.modules_of("booksan")
    here.remove("booksan")
    assert "submit" in here.run("booksan-client", "--help")
    here.install(wheels, "booksan")
    here.remove("booksan-client")
    assert "submit" in here.run("booksan", "--help")
    assert not (here.bin / "booksan-client").exists()
    here.remove("booksan")
    found = (path.name for path in here.bin.parent.glob("lib/*/site-packages/*"))
    assert not [name for name in found if name.startswith("booksan")]


def test_the_wheel_alone_answers_queries(wheels: Path, tmp_path: Path) -> None:
    here = Environment(tmp_path / "venv")
    here.install(wheels, "booksan")
    here.run("booksan", "generate", "books", "--out", "data", "--books", "50", "--reviews", "200")
    files = [f"data/{name}.csv" for name in ("books_data", "Books_rating")]
    here.run("booksan", "run", "books", *files, "--out", "answers", "--set", "q2.decades=1")
    assert len((here.bin.parent / "answers/q2.csv").read_text("utf-8").splitlines()) > 1
    assert (here.bin.parent / "share/booksan/hosts/three.toml").exists()
