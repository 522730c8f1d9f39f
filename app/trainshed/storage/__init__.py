"""What lies in a run's folder, and who may write it: attempts, claims, and whole files or none.

Imports nothing of ours but the contract.
"""
