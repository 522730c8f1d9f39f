"""Ray's private parts that Trainshed relies on, one a module. Imports no other package of ours.

The packages above pass values and callables in. Only this package and `ray_train` import private
parts of Ray; tests/ray_compat checks that Ray still has them.
"""
