"""The folder of a run on its storage, and who may write it: attempts, claims, atomic files.

Imports only the contract.
"""
