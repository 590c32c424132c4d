"""Who answers when policy asks: each file one `ports.Approver`."""
