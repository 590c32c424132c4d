"""The doors, through which requests reach Toolcaddie: the command line and the gateway. A door converts a request to a
`RunRequest`, the form that the runtime takes, and converts the result to output. It makes no decisions about tools."""
