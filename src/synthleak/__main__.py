"""`python -m synthleak` is `synthleak`."""

from synthleak.cli.main import main

if __name__ == "__main__":
    main()
