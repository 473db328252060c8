"""What the client and the servers both need, without heavy dependencies."""
