"""The doors, through which requests reach Toolcaddie: the command line and the gateway. They convert requests to `RunRequest`s
and results to output, and make no decisions about tools."""
