"""Pictures of trainings: training, loss_scaling, finetune, optimizer."""
from .spec import Plot

PLOTS = {
    "training": (
        Plot("summary", "Accuracy under each precision policy", "dots", "policy", ("accuracy",), series="network", whiskers=("lowest", "highest"), value_label="test accuracy",
             reading="The line is from the worst to the best seed; a training that ended in NaN counts as 0."),
        Plot("summary", "What rounding took away under each policy", "dots", "policy", ("swamped", "underflowed", "operands_lost"), panels="network", value_scale="log", value_label="share")),
    "loss_scaling": (
        Plot("recovery", "Gradients of a real training that a loss scale loses, at either end", "lines", "k", ("lost", "overflowed"), panels="format", where={"kind": "both"}, value_scale="log",
             along_label="log2 of the loss scale", value_label="share of gradients"),
        Plot("scale_course", "The course of dynamic loss scales", "lines", "step", ("scale",), series="variant", value_scale="log2", steps=True, value_label="loss scale")),
    "finetune": (
        Plot("summary", "What fine-tuning gains on its classes, and forgets of the others", "dots", "policy", ("tuned_before", "tuned", "other_before", "other"), panels="network",
             value_label="test accuracy", reading="Before and after; a training that ended in NaN counts as 0."),
        Plot("summary", "Weights that never move, and updates that are swamped", "dots", "policy", ("unmoved", "swamped"), panels="network", value_label="share")),
    "optimizer": (
        Plot("summary", "Accuracy of each variant of Adam", "dots", "variant", ("accuracy",), series="network", panels="group", value_label="test accuracy"),
        Plot("summary", "Second moments that vanish, and updates that are swamped", "dots", "variant", ("second_underflowed", "swamped"), panels="group", where={"network": "mlp"}, value_label="share")),
}
