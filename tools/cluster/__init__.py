"""Jobs on other machines: Ray finds a node, the contract of the engines does the rest. One machine needs none of it."""
