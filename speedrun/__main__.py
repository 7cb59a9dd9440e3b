"""``python -m speedrun``."""

from speedrun.cli import main

if __name__ == "__main__":
    main()
