"""An HTTP service for trained models: ``seqloom serve``."""
