"""The training engine: workers that run in the train environment, where Axolotl lives."""
