"""Nested class, for tests of registry paths."""


class Outer:
    class Inner:
        pass
