"""`python -m toolcaddie`: starts the command line where the script `toolcaddie` is not on the path."""

from toolcaddie.doors.cli import main

if __name__ == "__main__":
    main()
