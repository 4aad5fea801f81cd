"""The output layer of a language model, computed only where a label is.

With the prompt masked, a row of 74 tokens has two labels; the other 72 rows of logits (49,152 numbers each) are made,
upcast and thrown away. Leaving them out changes no loss and no gradient.
"""

import inspect

import torch

IGNORED = -100


class AnswerHead:
    """Two hooks: one reads the labels of a batch, the other hands only the labelled positions to the output layer."""

    def __init__(self, model):
        self.labelled = None
        causal = model.get_base_model() if hasattr(model, "get_base_model") else model
        if not any(each.kind is each.VAR_KEYWORD for each in inspect.signature(causal.forward).parameters.values()):
            return  # a model that does not hand `shift_labels` on to its loss keeps its whole output layer
        model.register_forward_pre_hook(self._read_labels, with_kwargs=True)
        causal.get_output_embeddings().register_forward_pre_hook(self._select)

    def _read_labels(self, module, args, kwargs):
        labels = kwargs.get("labels")
        self.labelled = None
        if labels is None or kwargs.get("shift_labels") is not None:
            return None
        following = torch.nn.functional.pad(labels, (0, 1), value=IGNORED)[:, 1:]
        labelled = following != IGNORED
        if not labelled.any():
            return None
        self.labelled = labelled
        return args, {**kwargs, "shift_labels": following[labelled][None]}

    def _select(self, module, args):
        if self.labelled is None:
            return None
        hidden, *rest = args
        return (hidden[self.labelled][None], *rest)
