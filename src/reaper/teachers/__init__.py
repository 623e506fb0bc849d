"""Agents trained elsewhere, as teachers: their files, their networks, and how they fit to a sequence.

    sb3.py, cleanrl.py, own.py, functions.py    a source -> a `TeacherFile`: what the network is, and its weights
    layers.py                                   a description -> the network
    fitting.py                                  states of a sequence -> the network -> actions of the sequence

Nothing that a file holds is ever executed: weights are read as plain tensors, and architectures are recognised by the
names and shapes of these.
"""
