"""What outlives a run: the model's folder and its card, exports that were checked, and the winner made again."""
