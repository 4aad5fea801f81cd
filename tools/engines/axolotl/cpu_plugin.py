"""Axolotl plugins for what no configuration key reaches."""

import torch
from axolotl.integrations.base import BasePlugin
from peft.tuners.lora import LoraLayer
from peft.utils import load_peft_weights, set_peft_model_state_dict


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
        """Have whatever is converted after loading end in this dtype; that of the loading itself is fixed before."""
        cfg.torch_dtype = torch.float32

    def post_model_build(self, cfg, model):
        """Widen the weights."""
        model.to(torch.float32)


class ContinuedAdapterPlugin(BasePlugin):
    """An adapter that is trained on keeps the settings it was saved with; its dropout is the recipe's, though."""

    def post_lora_load(self, cfg, model):
        """Set the dropout of every layer, and of the configuration that is saved with the adapter."""
        rate = cfg.lora_dropout or 0.0
        for name, config in model.peft_config.items():
            config.lora_dropout = rate
            for layer in model.modules():
                if isinstance(layer, LoraLayer) and name in layer.lora_dropout:
                    layer.lora_dropout[name] = torch.nn.Dropout(rate) if rate else torch.nn.Identity()


class ContinuedPairsPlugin(BasePlugin):
    """DPO that goes on from an adapter: Axolotl only takes its shape then, and would begin with an untrained one.

    The adapter's weights come in twice: as the one that learns, and as the frozen reference, which TRL looks for under
    this name. Both are the model that the training begins with.
    """

    def post_trainer_create(self, cfg, trainer):
        """Load them into the model that the trainer has made."""
        model = trainer.model
        weights = load_peft_weights(cfg.lora_model_dir, device="cpu")
        model.add_adapter("ref", model.peft_config["default"])
        for name in ("default", "ref"):
            set_peft_model_state_dict(model, weights, adapter_name=name)


class RowOrderPlugin(BasePlugin):
    """The order of the file, where it is wanted: the trainers of preferences and rewards ask for it in other words."""

    def get_training_args(self, cfg):
        """Arguments added to the trainer's own."""
        if not cfg.curriculum_sampling:
            return {}
        return {"shuffle_dataset": False} if cfg.rl == "grpo" else {"train_sampling_strategy": "sequential"}
