"""The other sides: PyTorch, Ray and XGBoost as their own guides use them.

Nothing here imports Trainshed; a test checks it.
"""
