"""Lets bots work: they answer people in chats, and work for schedules and other bots. Tools and doors reach them through
`ports.bots`."""
