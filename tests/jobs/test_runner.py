"""Folders of run directories."""

import socket

from jobs import runner


def test_only_folders_of_processes_that_live_no_more_are_removed() -> None:
    own = runner.own_folder()
    dead = own.parent / f"{socket.gethostname()}.999999999"
    elsewhere = own.parent / "another-machine.999999999"
    namesake = own.parent / f"{socket.gethostname()}.domain.999999999"
    for folder in (own, dead, elsewhere, namesake):
        (folder / "run-x" / "work").mkdir(parents=True)
    runner.remove_leftovers()
    assert [folder.exists() for folder in (own, dead, elsewhere, namesake)] == [True, False, True, True]
