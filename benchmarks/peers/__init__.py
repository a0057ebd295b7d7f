"""The libraries that Seqloom is compared with, one file each."""
