"""The shipped rankers. Each implements `ports.Ranker`: it scores every tool of one catalog for a request, and explains its
scores."""
