"""Pictures of trainings: training, loss_scaling, grad_scaler, finetune, optimizer, recommendation."""
from .spec import Plot

PLOTS = {
    "training": (
        Plot("curves", "Test loss against FP32's, by policy", "lines", "step", ("test_loss",), series="policy", panels="network", against=("policy", "fp32"), over="seed",
             only=("fp32", "O1", "O2", "pure-bf16", "strict-bf16", "bf16-sr", "fp8-hybrid", "mxfp4"), value_label="loss minus FP32's", value_scale="symlog", linear_to=0.001, file="losses",
             band="least to largest of the seeds", reading="0: as FP32. The line is the mean over seeds.", first=True),
        Plot("learning_rates", "Small steps: narrow weights against FP32, by how they are kept", "dots", "weights", ("to_fp32",), series="format", panels="lr", panel_label="learning rate",
             where={"network": "mlp", "rest": "fp32"}, value_label="accuracy minus FP32's", reading="The series is the format of the weights, a panel the learning rate. All else is FP32."),
        Plot("summary", "Accuracy under each precision policy", "dots", "policy", ("accuracy",), series="network", whiskers=("lowest", "highest"), value_label="test accuracy",
             file="accuracy", reading="The line is from the worst to the best seed; a training that ended in NaN counts as 0."),
        Plot("summary", "What rounding took away under each policy", "dots", "policy", ("swamped", "underflowed", "operands_lost"), panels="network", value_scale="log", value_label="share", file="lost")),
    "loss_scaling": (
        Plot("recovery", "Gradients of a real training that a loss scale loses, at either end", "lines", "k", ("lost", "overflowed"), panels="format", where={"kind": "both"}, value_scale="log",
             along_label="log2 of the loss scale", value_label="share of gradients", first=True),
        Plot("scale_course", "The course of dynamic loss scales", "lines", "step", ("scale",), series="variant", value_scale="log2", steps=True, value_label="loss scale")),
    "grad_scaler": (
        Plot("several", "One scaler for two networks: the scale after each step", "lines", "step", ("scale_after",), series="way", value_scale="log2", steps=True, value_label="loss scale", first=True),
        Plot("clipping", "How long a step is if gradients are clipped before and after they are unscaled", "lines", "k", ("to_fp32",), series="when", value_scale="log",
             along_label="log2 of the loss scale", value_label="norm of the gradient that is taken, FP32: 1"),
        Plot("accumulation", "What a step takes of the gradient of its micro-batches", "lines", "micro_batches", ("part",), series="way", along_scale="log2", value_scale="log",
             along_label="micro-batches of a step", value_label="part of the true gradient", empty="a gradient is Inf, and the step is not taken", reading="1: all of it, once."),
        Plot("resuming_course", "Trainings that go on from a checkpoint", "lines", "step", ("loss", "scale"), series="way", value_scale="log2", steps=True, same_values=False,
             reading="The checkpoint is in the middle; where a loss stays, steps are left out.")),
    "finetune": (
        Plot("learning_rates", "Small steps: narrow weights against FP32, by how they are kept", "dots", "weights", ("to_fp32",), series="format", panels="lr", panel_label="learning rate",
             where={"network": "mlp", "rest": "fp32"}, value_label="accuracy minus FP32's", reading="The series is the format of the weights, a panel the learning rate. All else is FP32.", first=True),
        Plot("summary", "What fine-tuning gains on its classes, and forgets of the others", "dots", "policy", ("tuned_before", "tuned", "other_before", "other"), panels="network",
             value_label="test accuracy", file="accuracy", reading="Before and after; a training that ended in NaN counts as 0."),
        Plot("summary", "Weights that never move, and updates that are swamped", "dots", "policy", ("unmoved", "swamped"), panels="network", value_label="share", file="unmoved")),
    "optimizer": (
        Plot("summary", "Accuracy of each variant of Adam", "dots", "variant", ("accuracy",), series="network", panels="group", everywhere=True, unnamed="the reference", value_label="test accuracy", first=True, file="accuracy",
             reading="Each panel is a group of variants beside fp32, the reference."),
        Plot("summary", "Second moments that vanish, and updates that are swamped", "dots", "variant", ("second_underflowed", "swamped"), panels="group", everywhere=True, unnamed="the reference", where={"network": "mlp"}, value_label="share", file="vanish",
             reading="Each panel is a group of variants beside fp32, the reference."),
        Plot("summary", "Norms of the weights, with and without weight decay", "dots", "variant", ("weight_norm",), panels="network", where={"group": "decay"}, value_label="norm of all weights", file="norms",
             reading="Where decay is rounded away, the norm is that without it."),
        Plot("instability", "Learning rates that are too large, and what repairs them", "dots", "variant", ("norm_spikes", "loss_spikes"), panels="network", value_label="steps with a spike"),
        Plot("batches", "Updates that are swamped, by the size of the batch", "lines", "batch", ("swamped",), series="policy", panels="network", along_scale="log2",
             along_label="examples a step", value_label="share of updates", reading="As many examples in all: larger batches have fewer and earlier steps, whose updates are larger next to their weights.")),
    "recommendation": (
        Plot("sensitivity", "What each format costs, alone in its place", "dots", "layer", ("error",), series="format", panels="part", where={"network": "mlp"}, value_scale="log",
             value_label="relative error of a step", unnamed_row="all layers", reading="All else is FP32. Weights and moments are those of all layers."),
        Plot("comparison", "What a step stores under the recommended policy and under others", "dots", "policy", ("bytes_to_fp32",), series="network", value_label="bytes, FP32: 1", first=True)),
    "model": (
        Plot("products", "Signal over error of each product", "lines", "step", ("sqnr",), series="layer", panels="product", value_label="SQNR (dB)", first=True, file="sqnr",
             empty="the product has no error, or no signal", reading="6 dB are one bit."),
        Plot("products", "Where the error of each product comes from", "stacked", "layer", ("quantization", "accumulation", "rounding"), panels="product", where={"step": 0}, value_label="share of the error",
             empty="the product has no error", reading="In the first counted step, by squares: rounding the operands, the sums, rounding the result.", file="shares"),
        Plot("exponents", "Magnitudes of gradients before they are rounded", "lines", "exponent", ("count",), series="layer", panels="role", value_scale="log", along_label="binary exponent", value_label="gradients"),
        Plot("updates", "Updates that left the weight as it was", "lines", "step", ("swamped",), series="parameter", value_label="share of updates")),
}
