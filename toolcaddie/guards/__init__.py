"""Guards under every room: outgoing requests, child processes and heavy work beside the event loop."""
