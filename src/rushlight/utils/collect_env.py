"""What a report of a problem should say of the machine."""

from ..__config__ import parallel_info, show

__all__ = ["get_pretty_env_info", "main"]


def get_pretty_env_info() -> str:
    return show() + parallel_info()


def main() -> None:
    print(get_pretty_env_info())
