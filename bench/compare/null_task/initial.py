"""Sixteen numbers are copied: what is left is what a proposal costs."""


def copy(numbers):
    return [number for number in numbers]


# EVOLVE-BLOCK-START
def run():
    value = 1000000
    return value
# EVOLVE-BLOCK-END


def main():
    copied = copy(range(16))
    return run(), copied
