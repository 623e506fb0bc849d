"""Planning: conditions, experiments, and the stages that they consist of."""
