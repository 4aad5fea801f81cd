"""Code that we did not write: the walls around it, how strong they are on this machine, and the child within."""
