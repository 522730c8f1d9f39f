"""What ours is measured against: PyTorch and Ray as their own guides use them.

Never here: an import of anything of ours; a test holds that.
"""
