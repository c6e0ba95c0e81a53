"""Stack manipulation (Deletang et al. 2022, arXiv:2207.02098): what a stack holds after some actions.

    0 1 1 0 push1 pop pop -> 1 1 0

The source is the stack from the bottom up, then the actions; the target is the stack from the top down. Popping an
empty stack does nothing. The paper pads the target to one token more than the source; here it ends where the stack
does, and an empty stack is the token ``empty``.
"""

import random

from relformer.data.task import Example
from relformer.data.tasks.by_length import SourceLengthTask
from relformer.registry import tasks

BITS = ("0", "1")
ACTIONS = ("pop", "push0", "push1")
EMPTY = "empty"


@tasks.register("stack_manipulation", describes="a stack and actions to the stack after them")
class StackManipulation(SourceLengthTask):
    source_tokens = (*BITS, *ACTIONS)
    target_tokens = (*BITS, EMPTY)

    def count(self, length: int) -> int:
        return sum(len(BITS) ** height * len(ACTIONS) ** (length - height) for height in range(1, length))

    def example(self, rng: random.Random, length: int) -> Example:
        height = rng.randint(1, length - 1)
        stack = rng.choices(BITS, k=height)
        actions = rng.choices(ACTIONS, k=length - height)
        source = (*stack, *actions)
        for action in actions:
            if action != "pop":
                stack.append(action[-1])
            elif stack:
                stack.pop()
        return source, tuple(reversed(stack)) or (EMPTY,)
