"""Learning: how an agent acts, trains, consolidates and is evaluated.

trainer           the loop: act, store, learn, evaluate
    actor             environments, with exploration, frame_stack, greedy_policy and episode_statistics
    experience        an actor and its replay
    learner           the updates of one step
    training_log, best_weights
q_learning        deep Q-learning: batches, target network, loss
short_term        algorithm 1: a fresh DQN learns one task
teachers          what consolidation needs of whoever knows the new task
objectives        how the long-term agent learns the new task
knowledge         which outputs of a teacher it learns and retains
long_term         algorithm 2: one task is consolidated into the long-term memory
collection        a replay collected by a finished agent
found_memory      checks of a long-term memory from elsewhere
evaluation        whole episodes with fixed weights, during training and after it
"""
