"""`python -m toolcaddie`: the command line where no script is on the path."""

from toolcaddie.doors.cli import main

if __name__ == "__main__":
    main()
