"""A disk that fails: works of the record and of releases, run while strace lets one of their system calls fail."""
