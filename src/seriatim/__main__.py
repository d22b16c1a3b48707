"""``python -m seriatim``: the command line."""

from seriatim.cli.main import main

if __name__ == "__main__":
    main()
