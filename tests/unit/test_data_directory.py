"""A host keeps secrets and state only where nobody else can put something."""

import os
from pathlib import Path

import pytest

from booksan.cluster.prepare import _check_directory
from booksan.errors import UsageError


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755])
def test_a_directory_that_only_its_owner_writes_to_is_taken(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    _check_directory(tmp_path)


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o702, 0o1777])
def test_a_directory_that_others_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(UsageError, match="others may write"):
        _check_directory(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, -1)
    with pytest.raises(UsageError, match="belongs to another user"):
        _check_directory(tmp_path)
