"""The data types that all other packages share (tools, messages, runs, settings, errors). This package imports only
`toolcaddie.util`."""
