"""Axolotl plugins for what no configuration key reaches."""

import torch
from axolotl.integrations.base import BasePlugin


class CpuPlugin(BasePlugin):
    """bf16 on a CPU: the trainer refuses it unless told that the CPU is meant."""

    def get_training_args(self, cfg):
        """Arguments added to the trainer's own."""
        return {"use_cpu": True}


class MasterWeightsPlugin(BasePlugin):
    """Full tuning keeps fp32 weights under bf16 autocast.

    `bf16: true` alone loads the weights in bf16 as well; an update smaller than 1/256 of its weight then rounds to
    nothing, and at usual learning rates most updates are.
    """

    def pre_model_load(self, cfg):
        """Set the dtype in which the weights are loaded."""
        cfg.torch_dtype = torch.float32
