"""What is remembered: for a moment (replay), for one stage (items), from task to task (long-term memory)."""
