"""What is remembered: within a stage (replay, items) and from task to task (long-term memory)."""
