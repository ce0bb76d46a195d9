"""What surfaces read: lists, windows of a transcript, sums, and views of memory."""
