"""Claims of an answer: sentences which say that something was done, compared with the calls that succeeded."""
