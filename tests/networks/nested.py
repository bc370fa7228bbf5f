"""A class inside a class, as a registry path may name it."""


class Outer:
    class Inner:
        pass
