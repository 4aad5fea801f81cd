"""A sweep of the learning rate on a model that is loaded and will be thrown away."""

import math

import torch


def run(trainer, dataset, rates, accumulation):
    """One optimiser step of the recipe's batch at each rate, from low to high. The losses, up to the first that is not
    a number."""
    model, args = trainer.model_wrapped, trainer.args
    args.gradient_accumulation_steps = trainer.current_gradient_accumulation_steps = accumulation
    trainer.train_dataset = drawn(dataset, len(rates) * accumulation * args.per_device_train_batch_size)
    trainer.optimizer = None
    optimizer = trainer.create_optimizer()
    batches = iter(trainer.get_train_dataloader())
    losses = []
    for rate in rates:
        for group in optimizer.param_groups:
            group["lr"] = rate
        samples, items = trainer.get_batch_samples(batches, accumulation, args.device)
        loss = sum(trainer.training_step(model, sample, items).item() for sample in samples)
        if not math.isfinite(loss):
            break
        losses.append(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
        optimizer.step()
        model.zero_grad()
    return losses


def drawn(dataset, wanted):
    """That many rows in random order, all of them before any comes again."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    while len(rows) < wanted:
        rows += torch.randperm(len(dataset), generator=generator).tolist()
    return dataset.select(rows[:wanted])
